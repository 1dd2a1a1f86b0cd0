"""Reads session documents of this schema version and of older ones (A-06)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ce_engine.errors import MigrationError, SchemaValidationError
from ce_engine.schema.document import SCHEMA_VERSION, Session, SessionDocument


Step = Callable[[dict[str, Any]], list[str]]
"""Changes a plain document in place and tells what it did; what does not fit it leaves alone."""


@dataclass(frozen=True, slots=True)
class MigrateResult:
    """A document of the current version; `changes` tell what was done to it, in order."""

    doc: SessionDocument
    from_version: str
    to_version: str
    changes: list[str] = field(default_factory=list)


def _messages(doc: dict[str, Any]) -> list[dict[str, Any]]:
    session = doc.get("session")
    messages = session.get("messages") if isinstance(session, dict) else None
    if not isinstance(messages, list):
        return []
    return [message for message in messages if isinstance(message, dict)]


def _number_messages(doc: dict[str, Any]) -> list[str]:
    """1.0 -> 1.1: messages have a number, beside optional fields that nobody could have written."""
    plain = _messages(doc)
    if not plain or any(message.get("seq") is not None for message in plain):
        return []
    for number, message in enumerate(plain, start=1):
        message["seq"] = number
    return [f"numbered {len(plain)} messages: session.messages[].seq from 1 to {len(plain)}"]


_SESSION_FIELDS = tuple(Session.model_fields)


def _nest_session(doc: dict[str, Any]) -> list[str]:
    """0.9 -> 1.0: what a draft had side by side stands in `session`, and evidence under its id."""
    changes = []
    flat = [name for name in _SESSION_FIELDS if name in doc]
    if flat and "session" not in doc:
        doc["session"] = {name: doc.pop(name) for name in flat}
        changes.append(f"moved into session: {', '.join(flat)}")
    evidences = doc.get("evidences")
    if isinstance(evidences, list) and all(isinstance(evidence, dict) for evidence in evidences):
        doc["evidences"] = {
            str(evidence.get("evidence_id", "")): evidence for evidence in evidences
        }
        if len(doc["evidences"]) < len(evidences):
            raise SchemaValidationError(
                "not a session document: two pieces of evidence have one evidence_id, or none has any"
            )
        changes.append(f"{len(evidences)} evidences: a list became an object by evidence_id")
    timed = [
        message for message in _messages(doc) if "timestamp" in message and "at" not in message
    ]
    for message in timed:
        message["at"] = message.pop("timestamp")
    if timed:
        changes.append(f"renamed in {len(timed)} messages: timestamp -> at")
    return changes


STEPS: Mapping[str, tuple[str, Step]] = {
    "0.9": ("1.0", _nest_session),
    "1.0": ("1.1", _number_messages),
}
"""Version -> the next one and the way there. Append-only: a version that was read once is read until
two major versions later."""


class Migrator:
    """Brings session documents of older schema versions to the current one.

    Version 0.9 is a draft, flat: `session_id` and `messages` beside `evidences`, a list. 1.0 is the schema
    as it was first written down, without our additive fields; 1.1 has them. A version is readable while its major number is the current one or the one before.
    """

    def __init__(self, steps: Mapping[str, tuple[str, Step]] = STEPS) -> None:
        self._steps = steps

    def current_version(self) -> str:
        return SCHEMA_VERSION

    def can_migrate(self, from_version: str) -> bool:
        """Whether documents of this version can be read; of the current one they can."""
        return from_version == SCHEMA_VERSION or from_version in self._steps

    def migrate(self, doc: Mapping[str, Any], from_version: str | None = None) -> MigrateResult:
        """Bring a plain document to the current version; the one given is left as it is.

        Args:
            doc: a document's JSON form.
            from_version: its version, where it does not say so itself.

        Raises:
            MigrationError: this version is unknown, or newer than this release.
            SchemaValidationError: the document fits no version.
        """
        if not isinstance(doc, Mapping):
            raise SchemaValidationError(
                f"not a session document: found {type(doc).__name__}, expected a JSON object"
            )
        start_version = from_version if from_version is not None else doc.get("schema_version")
        if not isinstance(start_version, str):
            raise SchemaValidationError(
                f"not a session document: schema_version is {start_version!r}; expected a text such as "
                f"{SCHEMA_VERSION!r}"
            )
        if not self.can_migrate(start_version):
            raise MigrationError(_unreadable(start_version, [*self._steps, SCHEMA_VERSION]))
        data, version, changes = dict(doc), start_version, []
        if version != SCHEMA_VERSION:
            data = deepcopy(data)
        while version != SCHEMA_VERSION:
            following, step = self._steps[version]
            changes += [f"schema_version {version} -> {following}", *step(data)]
            version = following
        return MigrateResult(
            _validated({**data, "schema_version": version}), start_version, version, changes
        )


def parse_document(data: Mapping[str, Any] | str | bytes) -> SessionDocument:
    """Read a session document, of this or an older schema version, from JSON text or plain data.

    Raises:
        MigrationError: its `schema_version` is unknown, or newer than this release.
        SchemaValidationError: it does not fit the schema.
    """
    if not isinstance(data, str | bytes):
        return Migrator().migrate(data).doc
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SchemaValidationError(f"not a session document: no JSON ({error})") from error
    return Migrator().migrate(document).doc


def _validated(data: dict[str, Any]) -> SessionDocument:
    try:
        return SessionDocument.model_validate(data)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, e["loc"])) or "(top)" for e in error.errors()[:5])
        raise SchemaValidationError(
            f"not a session document: {error.error_count()} field(s) do not fit, at {places}. "
            "Compare it with what `ce schema` prints."
        ) from error


def _unreadable(version: str, readable: list[str]) -> str:
    newer = _numbers(version) > _numbers(SCHEMA_VERSION)
    cure = (
        "A newer release of ce-integrations wrote it: upgrade."
        if newer
        else "Use the release of ce-integrations that wrote it."
    )
    return (
        f"the document has schema_version {version!r}; this release reads {', '.join(readable)}. "
        + cure
    )


def _numbers(version: str) -> tuple[int, ...]:
    """`1.10` as (1, 10), so that it is newer than `1.9`; empty for what is no version."""
    plain = re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6}){1,2}", version)
    return tuple(map(int, version.split("."))) if plain else ()
