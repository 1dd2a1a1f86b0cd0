"""All that is stored of one user, for that person's request (B-08)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ce_engine.schema.document import SCHEMA_VERSION, Schema, SessionDocument
from ce_engine.schema.events import Event
from ce_engine.schema.settings import Standing


class SessionExport(Schema):
    """One session of a user: what was said and found, the turns with their reports, and the log."""

    project_id: str = ""
    ephemeral: bool = False
    frameworks: list[str] = Field(default_factory=list)
    created_at: str = ""
    updated_at: str = ""
    document: SessionDocument
    turns: list[dict[str, Any]] = Field(default_factory=list)
    events: list[Event] = Field(default_factory=list)


class SettingExport(Schema):
    """What a user's owner set in a project: `constraints`, `budget`; `forged` if it is not what was set."""

    project_id: str = ""
    name: str
    value: Any
    standing: Standing = Standing.INTACT


class UserExport(Schema):
    """The sessions, ephemeral ones too, and the settings of exactly one user.

    Content is as it is stored: redacted, and sealed content opened.
    """

    schema_version: str = SCHEMA_VERSION
    exported_at: str
    account_id: str = ""
    user_id: str
    sessions: list[SessionExport] = Field(default_factory=list)
    settings: list[SettingExport] = Field(default_factory=list)
