"""Goes on with a line that is kept here: a caller by hand brings the results of tools alone, without what asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ce_engine.errors import SchemaValidationError
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.enums import Origin, Role
from ce_engine.sessions.view import SessionView
from ce_engine.turns.input.message_keys import from_row as incoming_of
from ce_engine.turns.input.message_keys import version
from ce_engine.turns.input.rehydration import live_value
from ce_engine.turns.record.linked_records import find_call
from ce_engine.turns.record.persistence_boundary import Ingest
from ce_engine.turns.record.write_group import RecordGroup


def go_on(call: ModelCall, records: RecordGroup) -> ModelCall:
    """The call with the messages of its turn before the results that it brings; else the call itself.

    Raises:
        SchemaValidationError: no message of the session's lane asks for what is answered.
    """
    first = next((m for m in call.messages if m.origin is not Origin.SYSTEM), None)
    if first is None or first.origin is not Origin.TOOL_RESULT:
        return call
    view = records.view
    ingest = records.ingest
    host_call_id = ingest.id(first.message.tool_call_id)
    call_ids = find_call(view, host_call_id, call.request_id, call.lane)
    if call_ids is None:
        raise SchemaValidationError(
            f"no message of session {call.scope.session_id!r} asks for the tool call "
            f"{first.message.tool_call_id!r}. Commit the assistant message with its tool_calls "
            "first, and give each result the id of its call."
        )
    caller = view.log.by_message_id(call_ids[1])
    assert caller is not None
    if _role(view, caller) is not Role.ASSISTANT:
        raise SchemaValidationError(
            f"the message of session {call.scope.session_id!r} that asks for the tool call is no assistant's any "
            "more: somebody changed the store. See: ce verify"
        )
    new = [_answering(m, ingest) for m in call.messages if m.origin is not Origin.SYSTEM]
    brought_ids = {m.message.tool_call_id for m in new}
    _see_that_all_are_answered(view, caller, brought_ids)
    line = [_host(view, n, version(ingest)) for n in _line(view, caller, brought_ids)]
    system = [m for m in call.messages if m.origin is Origin.SYSTEM]
    return replace(call, messages=[*system, *line, *new], request_id=view.rows[caller].request_id)


def _see_that_all_are_answered(
    view: SessionView, caller: int, brought_ids: set[str | None]
) -> None:
    entry = view.log[caller]
    answered = {view.log[n].call_id for n in view.log.results(caller)} | brought_ids
    if missing := [call for call in entry.calls if call not in answered]:
        raise SchemaValidationError(
            f"the results of the tool calls {missing} are missing; a model is given all results of one "
            "answer together. Bring them in one prepare_turn, one that failed with status='error'."
        )


def _line(view: SessionView, caller: int, brought_ids: set[str | None]) -> Iterator[int]:
    """Entries from the question to the message that asks, each call's results behind it.

    None is of the system's role, whatever the store says: the engine keeps no such message, and who only
    writes the store gives no orders.
    """
    for n in view.log.path(caller):
        if _role(view, n) is not Role.SYSTEM:
            yield n
        for result in view.log.results(n):
            is_brought = n == caller and view.log[result].call_id in brought_ids
            if not is_brought and _role(view, result) is Role.TOOL:
                yield result


def _role(view: SessionView, n: int) -> Role:
    return view.rows[n].message.role


def _host(view: SessionView, n: int, of: tuple[str, str]) -> HostMessage:
    """A stored message as a host would send it, live; it is recognised by what is stored of it."""
    row = view.rows[n]
    stored_message = row.message
    live_calls = [
        call.model_copy(update={"args": live_value(view.redactor, call.args)})
        for call in stored_message.tool_calls or ()
    ]
    message = stored_message.model_copy(
        update={
            "content": live_value(view.redactor, stored_message.content),
            "tool_calls": live_calls or None,
            "message_id": None,
            "parent_id": None,
            "seq": None,
            "refs": None,
        }
    )
    incoming_message = incoming_of(row, stored_message.author.id if stored_message.author else None)
    return HostMessage(message, Origin(row.origin), recognised=(of, incoming_message))


def _answering(host: HostMessage, ingest: Ingest) -> HostMessage:
    """The message with the id of its call as the stored message has it that asks for it."""
    call_id = ingest.id(host.message.tool_call_id)
    if call_id == host.message.tool_call_id:
        return host
    return replace(host, message=host.message.model_copy(update={"tool_call_id": call_id}))
