"""The persistence boundary: everything that is stored becomes a row here, redacted, in one place (B-02)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ce_engine.config import ContentKind, RedactionConfig
from ce_engine.errors import SchemaValidationError
from ce_engine.ports.evidence import EvidenceIngestor
from ce_engine.ports.ids import Clock, Hasher, IdGenerator
from ce_engine.ports.redaction import RedactResult, SessionRedactor
from ce_engine.schema.call import HostMessage
from ce_engine.schema.degradation import DEDUP_SKIPPED
from ce_engine.schema.document import (
    Author,
    EvidenceLinks,
    EvidenceSource,
    Message,
    Ref,
    ToolProvider,
    ToolRequest,
)
from ce_engine.schema.enums import Origin, ProviderKind
from ce_engine.schema.event_chain import payload_mac
from ce_engine.schema.events import KIND, Event, EventType
from ce_engine.schema.ids import Fingerprinter, Sha256Hasher
from ce_engine.schema.json_text import canonical_json, plain_data
from ce_engine.schema.report import RedactionRecord
from ce_engine.schema.rows import MessageRow
from ce_engine.schema.scope import Scope
from ce_engine.schema.tool_runs import Original
from ce_engine.text.redaction.broken_off import closed
from ce_engine.text.redaction.limits import LimitedRedactor
from ce_engine.text.redaction.pieces import RedactionTally, encodable
from ce_engine.text.redaction.redact import BoundRedactor, lettering
from ce_engine.text.redaction.spelled_out import each_lettered
from ce_engine.turns.record.confidence import RuleIngestor


MAX_ARGS_CHARS = 4000
"""Tool arguments longer than this, redacted, are stored as their beginning and length."""

MAX_NAME_CHARS = 200
"""Names of tools, authors, sources, and tags: what is longer, redacted, is cut off."""

MAX_URI_CHARS = 2000

_EMPTY = RedactResult("")

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""What a framework calls its runs: random, and nobody's name."""

_CODE = re.compile(r"[\w.:-]{1,64}")

_MESSAGE_KINDS = {
    Origin.TASK: "user_input",
    Origin.ANSWER: "final",
    Origin.TOOL_RESULT: "tool_result",
}


def is_code(text: str) -> bool:
    """Say whether a text has the form of a stable word such as `"Timeout"`."""
    return _CODE.fullmatch(text) is not None


OptionalText = TypeVar("OptionalText", str, str | None)


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
    policy: RedactionConfig = field(default_factory=RedactionConfig)
    names: MutableMapping[str, str] = field(default_factory=dict)
    """Names of the session met so far: a history names the same few authors over and over."""
    clean_tags: MutableMapping[tuple[tuple[str, str], ...], dict[str, str]] = field(
        default_factory=dict
    )
    """Tags of the session's calls as they are stored."""
    hasher: Hasher = field(default_factory=Sha256Hasher)
    ingestor: EvidenceIngestor = field(default_factory=RuleIngestor)
    degraded: list[str] = field(default_factory=list)
    """Codes of what failed on the way to the store, for `RecordGroup` to tell."""
    _limited: LimitedRedactor | None = field(default=None, init=False)
    _detecting: LimitedRedactor | None = field(default=None, init=False)
    """The same for what is said: it asks the detector, too."""
    redactions: dict[str, RedactionRecord] = field(default_factory=dict, init=False)
    """What was redacted so far, by the id of the piece (A-19)."""
    originals: dict[str, Original] = field(default_factory=dict, init=False)
    """For the second store; empty unless there is to be one."""

    def __post_init__(self) -> None:
        if self.redactor is not None:
            self._limited = LimitedRedactor(self.redactor, self.policy, self.degraded)
            asking = self.redactor  # one of somebody else's, which may wrap ours, is asked itself
            if isinstance(asking, BoundRedactor):
                asking = asking.detecting()
            self._detecting = LimitedRedactor(asking, self.policy, self.degraded)

    def _letter(self, text: str) -> str:
        """What is kept as it is, among what is redacted, has no placeholders either."""
        return text if self.redactor is None else lettering(self.redactor)(text)

    def points_only(self, kind: ContentKind) -> bool:
        """Whether content of a kind is not stored, only what recognises it and where it is from (A-30)."""
        return self.policy.policy_of(kind) == "pointer"

    def text(
        self, text: str, kind: ContentKind = "messages", *, is_stored: bool = False
    ) -> tuple[RedactResult, bool]:
        """The text as it may be stored, and whether it is withheld because redaction failed.

        Lone surrogates become U+FFFD: no encoding of a store can hold them. Placeholders that somebody
        wrote out become none, but in a text that `is_stored` already, whose are ours.
        """
        clean, redactor = encodable(text), self._redactor_of(kind)
        if not clean:
            return _EMPTY, False
        if redactor is None:
            return RedactResult(clean if is_stored else self._letter(clean)), False
        return redactor.text(clean, is_stored=is_stored)

    def _redactor_of(self, kind: ContentKind | None) -> LimitedRedactor | None:
        """What redacts content of a kind; none for names and ids, where a detector would find people."""
        policy = self.policy.policy_of(kind) if kind is not None else "patterns"
        if policy == "stored":
            return None
        return self._limited if policy == "patterns" else self._detecting

    def is_apart(self, sensitivity: object) -> bool:
        """Whether content of this sensitivity goes to the second store alone (A-30)."""
        return isinstance(sensitivity, str) and sensitivity in self.policy.originals_only

    def content(
        self,
        text: str,
        piece: RedactionTally,
        *,
        kind: ContentKind,
        is_apart: bool = False,
        broken_off: bool = False,
        is_stored: bool = False,
    ) -> tuple[RedactResult, bool]:
        """The content of a piece as it may be stored, and whether it is withheld.

        `broken_off`: it goes on, and nobody knows how. `is_stored`: see `text`.
        """
        redacted, withheld = self.text(text, kind, is_stored=is_stored)
        if broken_off and self.policy.policy_of(kind) != "stored" and self._limited is not None:
            redacted = closed(redacted)
        piece.hit(redacted.rules, redacted.count)
        if self.points_only(kind) or is_apart:
            piece.pointed = True
            return replace(redacted, text=""), bool(text)
        return redacted, withheld

    def note_piece(self, piece: RedactionTally, content: str = "", data: Any = None) -> None:
        """A piece is ready to be stored: keep what was redacted in it, and its original if that is wanted."""
        if piece.rules:
            self.redactions[piece.id] = RedactionRecord(
                evidence_id=piece.id, rules_applied=[*piece.rules], fields_redacted=piece.count
            )
        is_wanted = self.policy.mode == "dual_store" and (piece.rules or piece.pointed)
        if is_wanted and (content or data):
            self.originals[piece.id] = Original(piece.id, encodable(content), self.plain(data))

    def untold(self, piece_id: str | None) -> None:
        """A piece is not stored after all: it is there already."""
        self.redactions.pop(piece_id or "", None)
        self.originals.pop(piece_id or "", None)

    def data(
        self,
        value: Any,
        piece: RedactionTally | None = None,
        kind: ContentKind | None = None,
    ) -> Any:
        """Plain JSON data as it may be stored (see `LimitedRedactor`); `None` where it is none.

        Without a kind it is names, tags and settings.
        """
        plain, redactor = self.plain(value), self._redactor_of(kind)
        if redactor is None:
            return plain if self.redactor is None else each_lettered(plain, self._letter)
        done = redactor.data(plain)
        if piece is not None:
            piece.hit(done.rules, done.count)
        return done.value

    def plain(self, value: Any) -> Any:
        """A copy as plain JSON data; `None` for what is none, and that is told."""
        try:
            return plain_data(value)
        except (TypeError, SchemaValidationError):
            self.degraded.append(SchemaValidationError.code)
            return None

    def name(self, text: str, most: int = MAX_NAME_CHARS) -> str:
        """A name, a URI or another short text as it may be stored; empty where redaction failed.

        Equal texts give equal names in the whole session, so that stored authors can be recognised.
        """
        stored_name = self.names.get(text)
        if stored_name is None:
            stored_name = self.names[text] = self._short(text)
        return stored_name[:most]

    def address(self, text: str, most: int = MAX_NAME_CHARS) -> str:
        """Where a document or a file is, or what it is called: data of it like its metadata, else a name."""
        if text and self.points_only("metadata"):
            return self.fingerprinter.mac("address", text).hex()
        return self.name(text, most)

    def _short(self, text: str, *, is_stored: bool = False) -> str:
        clean = encodable(text)
        if not clean or self._limited is None:
            return clean
        return self._limited.text(clean, is_stored=is_stored)[0].text

    def id(self, text: OptionalText) -> OptionalText:
        """An id of the host's as it may be stored: a caller may put anything into one.

        Equal ids stay equal in the session, also where redaction fails: whoever compares live ids with
        stored ones asks here first. A stored one, which we gave, stays what it is: no live value is put
        into ids.
        """
        if not text or _UUID.fullmatch(text):
            return text
        if self._letter(text) == text:
            stored_id = self.name(text, MAX_URI_CHARS)
        else:
            stored_id = self._short(text, is_stored=True)[:MAX_URI_CHARS]
        return stored_id or self.fingerprinter.mac("id", text).hex()

    def call_ids(self, requests: Sequence[ToolRequest] | None) -> tuple[str, ...]:
        """The ids of the calls that a message asks for, as they are stored."""
        return tuple(self.id(call.id or "") for call in requests or ())

    def refs(self, refs: Sequence[Ref] | None, *, cited: bool | None = None) -> list[Ref] | None:
        """Refs of the host's as they may be stored; `None` for none."""
        return [
            Ref(
                evidence_id=self.id(ref.evidence_id),
                selector=self.id(ref.selector),
                cited=None if ref.selector else cited,  # a part is named by nobody else
            )
            for ref in refs or ()
        ] or None

    def links(self, links: EvidenceLinks) -> EvidenceLinks:
        return EvidenceLinks(
            model_usage_id=self.id(links.model_usage_id), tool_call_id=self.id(links.tool_call_id)
        )

    def code(self, text: str, otherwise: str) -> str:
        """A stable word such as `"Timeout"`; `otherwise` for what is none, or holds something sensitive."""
        return text if is_code(text) and self.name(text) == text else otherwise

    def provider(self, kind: ProviderKind, name: str, uri: str) -> ToolProvider:
        """Who runs a tool."""
        return ToolProvider(kind=kind, name=self.name(name), uri=self.name(uri, MAX_URI_CHARS))

    def args(
        self, args: Mapping[str, Any] | str, piece: RedactionTally | None = None
    ) -> dict[str, Any]:
        """Tool arguments, redacted and bounded."""
        arguments = dict(args) if isinstance(args, Mapping) else {"input": args}
        value = self.data(arguments, piece, "tool_arguments")
        if not isinstance(value, dict):
            return {}
        text = json.dumps(value, ensure_ascii=False)
        if self.points_only("tool_arguments"):
            if piece is not None:
                piece.pointed = True
            return {"chars": len(text)} if value else {}
        if len(text) <= MAX_ARGS_CHARS:
            return value
        return {"input": text[:MAX_ARGS_CHARS], "chars": len(text)}

    def call_args(self, call_id: str, args: Mapping[str, Any] | str) -> dict[str, Any]:
        """The arguments of a tool call that is recorded on its own."""
        piece = RedactionTally(call_id)
        stored_args = self.args(args, piece)
        self.note_piece(piece, data={"args": args})
        return stored_args

    def message_row(
        self,
        host: HostMessage,
        *,
        message_id: str,
        keys: tuple[bytes, bytes],
        speaker: str | None,
        tokens: tuple[str, int],
        broken_off: bool = False,
    ) -> MessageRow:
        """A host message as a row; parent, lane and turn are the caller's to set.

        `speaker` is the live name: the row has what `name` makes of it, and so must whoever compares.
        `broken_off`: a stream of it was cut off.
        """
        live = host.message
        redacted, withheld, requests = self._redact_message(message_id, host, broken_off=broken_off)
        author = live.author
        message = Message(
            role=live.role,
            content=redacted.text,
            author=Author(kind=author.kind, id=self.name(author.id)) if author else None,
            at=self.id(live.at) or self.clock.now_iso(),
            message_id=message_id,
            tool_calls=requests or None,
            tool_call_id=self.id(live.tool_call_id),
            status="error" if host.error else self.id(live.status),
        )
        return MessageRow(
            message=message,
            key=keys[0],
            loose_key=keys[1],
            origin=str(host.origin),
            speaker=self.name(speaker) if speaker else None,
            host_id=self.fingerprinter.mac("host-id", host.host_id) if host.host_id else None,
            tokens=tokens[1],
            counted_by=self.counted_by(tokens[0]),
            length=len(live.content),
            framework=self.framework,
            has_sensitive=redacted.has_sensitive,
            withheld=withheld,
            redactor_version=self.redactor_version,
        )

    def counted_by(self, name: str) -> str:
        """Estimator and model, of which the host may have named the second as it likes."""
        estimator, _, model = name.partition("/")
        return f"{estimator}/{self.name(model)}"

    def _redact_message(
        self, message_id: str, host: HostMessage, *, broken_off: bool
    ) -> tuple[RedactResult, bool, list[ToolRequest]]:
        """What a message says and asks for as it may be stored, and whether its content is withheld."""
        live = host.message
        piece, calls = RedactionTally(message_id), live.tool_calls or ()
        kind: ContentKind = "tool_results" if host.origin is Origin.TOOL_RESULT else "messages"
        redacted, withheld = self.content(live.content, piece, kind=kind, broken_off=broken_off)
        requests = [
            ToolRequest(name=self.name(c.name), id=self.id(c.id), args=self.args(c.args, piece))
            for c in calls
        ]
        self.note_piece(piece, live.content, {"args": [c.args for c in calls]} if calls else None)
        return redacted, withheld, requests

    def dedup_key(self, source: EvidenceSource, content: str) -> bytes:
        """Equal for the same live content of the same source, within the session (A-09)."""
        where = f"{source.kind}\x00{source.name}\x00{source.uri}"
        return self._key(lambda: f"{where}\x00{self.hasher.digest(content)}")

    def pure_key(self, tool: str, uri: str, args: Mapping[str, Any] | str) -> bytes:
        """Equal for the same live arguments of the same tool: its result depends on nothing else."""
        return self._key(lambda: f"pure\x00{tool}\x00{uri}\x00{canonical_json(args)}")

    def own_key(self) -> bytes:
        """Equal to no other: for evidence that is stored in any case."""
        return self.fingerprinter.mac("evidence", self.ids.generate())

    def _key(self, make_text: Callable[[], str]) -> bytes:
        try:
            return self.fingerprinter.mac("evidence", make_text())
        except Exception:  # noqa: BLE001 - a hasher of somebody else's, arguments that are no JSON
            self.degraded.append(DEDUP_SKIPPED)
            return self.own_key()

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
        tag_items = tuple(self.tags.items())
        stored_tags = self.clean_tags.get(tag_items)
        if stored_tags is None:
            tags = self.data(dict(tag_items)) or {}
            stored_tags = self.clean_tags[tag_items] = {
                key[:MAX_NAME_CHARS]: str(tag)[:MAX_NAME_CHARS] for key, tag in tags.items()
            }
        return dict(stored_tags)

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
