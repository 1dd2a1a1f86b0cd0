"""What is stored of a session as candidates to be brought in again, and pins as they were rendered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ce_engine.prepare.blocks.material import sensitivity_of
from ce_engine.prepare.choose.anchored_context import Pin
from ce_engine.prepare.choose.candidates import pin_of
from ce_engine.prepare.compose.render import Locale, Snippet, some_of
from ce_engine.prepare.sources import Candidate
from ce_engine.prepare.tool_results.values import values_of, words_in
from ce_engine.schema.enums import Role
from ce_engine.sessions.view import SessionView


KINDS = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.TOOL: "tool"}


def day_of(view: SessionView, n: int | None) -> str:
    """The day of an entry, `YYYY-MM-DD`; `""` where it is not known."""
    return (view.rows[n].message.at or "")[:10] if n is not None else ""


def entry(view: SessionView, n: int, score: float) -> Candidate:
    """An entry of the log; a tool result that is JSON as the values that it has."""
    row = view.rows[n]
    message = row.message
    assert message.message_id is not None
    name, text = row.speaker or "", message.content
    evidence_id = view.by_message.get(message.message_id, "")
    evidence = view.evidence.get(evidence_id)
    if message.role is Role.TOOL:
        name = evidence.evidence.source.name if evidence else ""
        text = values_of(text)
        name = " ".join([name, *(word for word in _asked_with(view, n) if word not in text)])
    says_all = text != message.content
    kind = KINDS.get(message.role, "user")
    snippet = Snippet(kind, text, name, message.at or "", evidence_id, says_all)
    sensitivity = sensitivity_of(evidence.evidence) if evidence else None
    name = f"m:{message.message_id}"
    return Candidate(name, snippet, score, n, is_stored=True, sensitivity=sensitivity)


def _asked_with(view: SessionView, n: int) -> Iterator[str]:
    """The values that the call had which a tool result answers."""
    asking = view.log.parents[n]
    calls = (view.rows[asking].message.tool_calls or ()) if asking >= 0 else ()
    call_id = view.rows[n].message.tool_call_id
    for call in calls:
        if call.id == call_id and (call_id or len(calls) == 1):
            yield from words_in(call.args)
            return


def document(view: SessionView, evidence_id: str, score: float) -> Candidate:
    """Evidence that is no message."""
    evidence = view.evidence[evidence_id].evidence
    snippet = Snippet(
        "document",
        evidence.content,
        evidence.source.name,
        str(evidence.metadata.get("created_at", "")),
        evidence_id,
    )
    # No number of the store: the process that recorded it has none yet, and must choose alike.
    sensitivity = sensitivity_of(evidence)
    return Candidate(f"e:{evidence_id}", snippet, score, 0, is_stored=True, sensitivity=sensitivity)


def pins_again(view: SessionView, archived: Sequence[Any], locale: Locale) -> dict[str, Pin]:
    """The pins that an archive names, rendered once more of what is stored."""
    pins: dict[str, Pin] = {}
    for anchor, refs, *more in archived:
        steps, live = more[0] if more else (), more[1] if len(more) > 1 else 0
        candidates = [c for ref in refs for c in _pinned(view, ref)]
        day = day_of(view, view.log.by_message_id(anchor))
        if (pin := pin_of(candidates, locale, day, steps)) is not None:
            pins[anchor] = replace(pin, live=live)
    return pins


def _pinned(view: SessionView, ref: str | list[Any]) -> Iterator[Candidate]:
    name, sentences = (ref, ()) if isinstance(ref, str) else (ref[0], tuple(ref[1:]))
    n = view.log.by_message_id(name)
    if n is None and name not in view.evidence:
        return
    whole = document(view, name, 0.0) if n is None else entry(view, n, 0.0)
    text = some_of(whole.snippet.text, sentences) if sentences else whole.snippet.text
    yield replace(whole, snippet=replace(whole.snippet, text=text), sentences=sentences)
