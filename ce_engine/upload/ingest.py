"""The persistence boundary: everything that is stored becomes a row here, redacted, in one place (B-02)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ce_engine.ports import Clock, IdGenerator, RedactResult, SessionRedactor
from ce_engine.schema.call import HostMessage
from ce_engine.schema.document import (
    Author,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    Message,
    Ref,
    ToolProvider,
    ToolRequest,
)
from ce_engine.schema.enums import EvidenceType, Origin, ProviderKind
from ce_engine.schema.events import KIND, Event, EventType, payload_mac
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.rows import EvidenceRow, MessageRow
from ce_engine.schema.scope import Scope


MAX_ARGS_CHARS = 4000
"""Tool arguments longer than this, redacted, are stored as their beginning and length."""

MAX_NAME_CHARS = 200
"""Names of tools, authors, sources, and tags: what is longer, redacted, is cut off."""

MAX_URI_CHARS = 2000

_CODE = re.compile(r"[\w.:-]{1,64}")

_MESSAGE_KINDS = {
    Origin.TASK: "user_input",
    Origin.ANSWER: "final",
    Origin.TOOL_RESULT: "tool_result",
}


@dataclass(slots=True)
class Ingest:
    """Makes rows for one session. `redact=None` stores as it is (redaction switched off)."""

    scope: Scope
    fingerprinter: Fingerprinter
    redactor: SessionRedactor | None
    redactor_version: str
    clock: Clock
    ids: IdGenerator
    tags: Mapping[str, str]
    framework: str = ""
    names: MutableMapping[str, str] = field(default_factory=dict)
    """Names of the session met so far: a history names the same few authors over and over."""
    clean_tags: MutableMapping[tuple[tuple[str, str], ...], dict[str, str]] = field(
        default_factory=dict
    )
    """Tags of the session's calls as they are stored."""

    def text(self, text: str) -> tuple[RedactResult, bool]:
        """The text as it may be stored, and whether it is withheld because redaction failed.

        Lone surrogates become U+FFFD: no encoding of a store can hold them.
        """
        clean = text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
        if self.redactor is None:
            return RedactResult(clean), False
        try:
            return self.redactor.text(clean), False
        except Exception:  # noqa: BLE001 - a redactor of somebody else's may raise anything
            return RedactResult("", ("redaction_failed",), 0, has_sensitive=True), True

    def data(self, value: Any) -> Any:
        """Plain JSON data as it may be stored; `None` where redaction failed."""
        try:
            plain = json.loads(json.dumps(value, ensure_ascii=True, default=str))
        except (TypeError, ValueError):
            return None
        if self.redactor is None:
            return plain
        try:
            return self.redactor.data(plain)[0]
        except Exception:  # noqa: BLE001 - as above
            return None

    def name(self, text: str, most: int = MAX_NAME_CHARS) -> str:
        """A name, a URI or another short text as it may be stored; empty where redaction failed.

        Equal texts give equal names in the whole session, so that stored authors can be recognised.
        """
        known = self.names.get(text)
        if known is None:
            known = self.names[text] = self.text(text)[0].text
        return known[:most]

    def id(self, text: str | None) -> str | None:
        """An id of the host's as it may be stored: a caller may put anything into one.

        Equal ids stay equal in the session: whoever compares live ids with stored ones asks here first.
        """
        return self.name(text) if text else text

    def call_ids(self, asked: Sequence[ToolRequest] | None) -> tuple[str, ...]:
        """The ids of the calls that a message asks for, as they are stored."""
        return tuple(self.name(call.id or "") for call in asked or ())

    def refs(self, given: Sequence[Ref] | None) -> list[Ref] | None:
        """Refs of the host's as they may be stored; `None` for none."""
        return [
            Ref(evidence_id=self.name(ref.evidence_id), selector=self.id(ref.selector))
            for ref in given or ()
        ] or None

    def links(self, links: EvidenceLinks) -> EvidenceLinks:
        return EvidenceLinks(
            model_usage_id=self.id(links.model_usage_id), tool_call_id=self.id(links.tool_call_id)
        )

    def code(self, text: str, otherwise: str) -> str:
        """A stable word such as `"Timeout"`; `otherwise` for what is none, or holds something sensitive."""
        return text if _CODE.fullmatch(text) and self.name(text) == text else otherwise

    def provider(self, kind: ProviderKind, name: str, uri: str) -> ToolProvider:
        """Who runs a tool."""
        return ToolProvider(kind=kind, name=self.name(name), uri=self.name(uri, MAX_URI_CHARS))

    def args(self, args: Mapping[str, Any] | str) -> dict[str, Any]:
        """Tool arguments, redacted and bounded."""
        value = self.data(dict(args) if isinstance(args, Mapping) else {"input": args})
        if not isinstance(value, dict):
            return {}
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= MAX_ARGS_CHARS:
            return value
        return {"input": text[:MAX_ARGS_CHARS], "chars": len(text)}

    def message_row(
        self,
        host: HostMessage,
        *,
        message_id: str,
        keys: tuple[bytes, bytes],
        speaker: str | None,
        tokens: tuple[str, int],
    ) -> MessageRow:
        """A host message as a row; parent, lane and turn are the caller's to set.

        `speaker` is the live name: the row has what `name` makes of it, and so must whoever compares.
        """
        live = host.message
        redacted, withheld = self.text(live.content)
        author = live.author
        stored = Message(
            role=live.role,
            content=redacted.text,
            author=Author(kind=author.kind, id=self.name(author.id)) if author else None,
            at=self.id(live.at) or self.clock.now_iso(),
            message_id=message_id,
            tool_calls=self._requests(live.tool_calls or ()) or None,
            tool_call_id=self.id(live.tool_call_id),
            status="error" if host.error else self.id(live.status),
        )
        return MessageRow(
            message=stored,
            key=keys[0],
            loose_key=keys[1],
            origin=str(host.origin),
            speaker=self.name(speaker) if speaker else None,
            host_id=self.fingerprinter.mac("host-id", host.host_id) if host.host_id else None,
            tokens=tokens[1],
            counted_by=self.name(tokens[0]),  # it names the model
            length=len(live.content),
            framework=self.framework,
            has_sensitive=redacted.has_sensitive,
            withheld=withheld,
            redactor_version=self.redactor_version,
        )

    def _requests(self, asked: Sequence[ToolRequest]) -> list[ToolRequest]:
        return [
            ToolRequest(name=self.name(c.name), id=self.id(c.id), args=self.args(c.args))
            for c in asked
        ]

    def dedup_key(self, source: EvidenceSource, content: str) -> bytes:
        """Equal for the same live content of the same source, within the session (A-09)."""
        return self.fingerprinter.mac(
            "evidence", f"{source.kind}\x00{source.name}\x00{source.uri}\x00{content}"
        )

    def evidence_row(
        self,
        content: str,
        source: EvidenceSource,
        kind: EvidenceType,
        *,
        links: EvidenceLinks,
        metadata: Mapping[str, Any] | None = None,
        clean: Mapping[str, str | None] | None = None,
        confidence: float | None = None,
        message_id: str | None = None,
    ) -> EvidenceRow:
        """A piece of evidence as a row; with `message_id` the content is that message's.

        `clean` is metadata that needs no redaction: ids of our own, and what `name` gave.
        """
        redacted, withheld = self.text(content) if message_id is None else (RedactResult(""), False)
        stored = dict(self.data(dict(metadata)) or {}) if metadata else {}
        stored |= clean or {}
        stored["created_at"] = self.clock.now_iso()
        if withheld or redacted.has_sensitive:
            stored["has_sensitive"] = True
        evidence = Evidence(
            evidence_id=self.ids.generate(),
            type=kind,
            source=EvidenceSource(
                kind=source.kind,
                name=self.name(source.name),
                uri=self.name(source.uri, MAX_URI_CHARS),
            ),
            content=redacted.text,
            confidence=confidence,
            metadata=stored,
            links=links,
        )
        return EvidenceRow(
            evidence=evidence,
            dedup_key=self.dedup_key(source, content),
            message_id=message_id,
            project_id=self.scope.project_id,
            redactor_version=self.redactor_version,
        )

    def event(
        self,
        event_type: EventType,
        *,
        payload: Mapping[str, Any] | None = None,
        turn_id: str | None = None,
        request_id: str = "",
        kind: str = "",
        **links: Any,
    ) -> Event:
        """An event with the framework's tag. `payload` holds ids, counts and codes, never content."""
        event = Event(
            event_type=event_type,
            session_id=self.scope.session_id,
            account_id=self.scope.account_id,
            user_id=self.scope.user_id,
            turn_id=turn_id,
            request_id=request_id,
            kind=kind or KIND.get(event_type, ""),
            event_id=self.ids.generate(),
            ts=self.clock.now_iso(),
            tags=self._stored_tags(),
            payload=dict(payload or {}),
            redacted=True,
            nonce=self.ids.generate()[:18],
            **links,
        )
        event.payload_mac = payload_mac(event, self.fingerprinter.key)
        return event

    def _stored_tags(self) -> dict[str, str]:
        given = tuple(self.tags.items())
        known = self.clean_tags.get(given)
        if known is None:
            tags = self.data(dict(given)) or {}
            known = self.clean_tags[given] = {
                key[:MAX_NAME_CHARS]: str(tag)[:MAX_NAME_CHARS] for key, tag in tags.items()
            }
        return dict(known)

    def appended(self, row: MessageRow) -> Event:
        """The event of a new message."""
        return self.event(
            EventType.MESSAGE_APPENDED,
            payload={"message_id": row.message.message_id, "origin": row.origin},
            turn_id=row.turn_id,
            request_id=row.request_id,
            kind=_MESSAGE_KINDS.get(Origin(row.origin), ""),
            token_estimate=row.tokens,
        )


def refs(evidence_ids: list[str]) -> list[Ref] | None:
    """Refs to whole pieces of evidence, each once; `None` for none."""
    return [Ref(evidence_id=item) for item in dict.fromkeys(evidence_ids)] or None
