"""Sessions as readable files in a folder: a JSON snapshot and a JSONL journal each."""

from __future__ import annotations

from ce_engine.stores.documents.file.store import FileStore


__all__ = ["FileStore"]
