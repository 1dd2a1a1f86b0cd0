"""Revisions of the SQL schema, oldest first; Alembic runs them where a file is older."""

from __future__ import annotations


KNOWN = ("0001", "0002", "0003", "0004", "0005", "0006")
HEAD = KNOWN[-1]
