"""A history that was kept elsewhere comes in, as if its list had been sent with a call (decision 4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from ce_engine.errors import SchemaValidationError, StoreUnavailableError
from ce_engine.schema.call import Attachment, HostMessage, ModelCall
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Origin, Role
from ce_engine.schema.report import ImportReport, PutResult
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.times import iso, parse_time
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.input.message_keys import incoming
from ce_engine.turns.input.preparation import Preparation
from ce_engine.turns.record.write_group import RecordGroup


AT_ONCE = 500
"""Messages in one group of writes: other sessions' are written in between."""

PATIENT_S = 15.0
"""Who imports rather waits than reads that the store is busy; an app's turn does not."""

ORIGINS = {
    Role.SYSTEM: Origin.SYSTEM,
    Role.USER: Origin.TASK,
    Role.ASSISTANT: Origin.ANSWER,
    Role.TOOL: Origin.TOOL_RESULT,
}


class ImportMethods(EngineBase):
    """Takes in what was said before the engine was there."""

    @abstractmethod
    async def _await_storage(self, scope: Scope) -> PutResult:
        """Wait, within the store's deadline, for what was recorded."""

    @abstractmethod
    def _counter(self, model: str) -> Counter:
        """A counter of a model's tokens."""

    async def import_session(
        self,
        session_id: Scope | str,
        messages: Sequence[Message | HostMessage],
        *,
        framework: str = "",
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Record a conversation that was held elsewhere, each message once, oldest first.

        What the session has already is recognised: again it appends nothing, a longer list only what
        is new, and an app that goes on with the same list is recognised, too. Times (`at`, ISO 8601),
        authors, tool calls with their results and attachments come with the messages; system messages
        are the app's own and are not stored. Results that answer no call are left out, and told.

        Args:
            session_id: whose conversation; a new one begins with it.
            messages: the whole list. `HostMessage` has what a `Message` cannot say: an id of the
                framework's, digests of pictures, what a message is.
            framework: where it comes from, as the rows are to say.
            progress: called with the number of messages that are stored, now and then.

        Raises:
            SchemaValidationError: there is nothing to record, or a time is none; nothing is recorded.
            StoreUnavailableError: the store did not take it all; the same import again goes on.
        """
        scope = as_scope(session_id)
        hosts = [_host(n, message) for n, message in enumerate(messages)]
        hosts, repairs = _repaired(hosts)
        if all(host.origin is Origin.SYSTEM for host in hosts):
            raise SchemaValidationError(
                f"import_session needs messages of a conversation; found {len(messages)}, none of "
                "them to be stored: hand over the user's and the assistant's messages, too"
            )
        new = version = 0
        for start in range(0, len(hosts), AT_ONCE):
            end = min(start + AT_ONCE, len(hosts))
            call = ModelCall(scope, hosts[:end], framework=framework)
            new += await self._taken_in(call, hosts[start:end])
            version = await self._version_of(scope, f"{start} of {len(hosts)}")
            if progress is not None:
                progress(end)
        system = sum(host.origin is Origin.SYSTEM for host in hosts)
        return ImportReport(
            messages=len(messages),
            new=new,
            known=len(hosts) - system - new,
            system=system,
            repairs=repairs,
            session_version=version,
        )

    async def _version_of(self, scope: Scope, before: str) -> int:
        """The session's version with all that was handed over."""
        with self._journal.phase(PATIENT_S):
            result = await self._await_storage(scope)
        if result.success:
            return result.version
        raise StoreUnavailableError(
            f"{before} messages are stored, the others not yet ({result.error}). Import the same list "
            "again when the store is back: what is there is recognised. What is wrong with it tells: "
            "ce doctor"
        )

    async def _taken_in(self, call: ModelCall, fresh: Sequence[HostMessage]) -> int:
        """Record what is new of a list, of which only the end was never seen; how many that are."""

        def record(records: RecordGroup) -> int:
            if _is_known(call, records):
                return 0
            counter = self._counter("")
            return Preparation(call, self.config, records, counter, self.pruner).take_in()

        messages = [host.message for host in fresh]
        count = await self._record(call.scope, record, framework=call.framework, parts=messages)
        assert isinstance(count, int)
        return count


def _is_known(call: ModelCall, records: RecordGroup) -> bool:
    """Whether a list of one message is the beginning of a line that is there.

    In an app's call it would be asked again; who imports it again does not ask.
    """
    line = [host for host in call.messages if host.origin is not Origin.SYSTEM]
    if len(line) != 1:
        return False
    message, lane = incoming(line, records.ingest)[0], records.ingest.id(call.lane)
    log = records.view.log
    return any(log[n].lane_key == lane for n in log.roots_by_key(message.key))


def _host(place: int, message: Message | HostMessage) -> HostMessage:
    """A message as a host would send it, with its time in UTC."""
    host = message if isinstance(message, HostMessage) else _of_message(message)
    at = _utc(place, host.message.at) if host.message.at else None
    if at == host.message.at:
        return host
    return replace(host, message=host.message.model_copy(update={"at": at}))


def _of_message(message: Message) -> HostMessage:
    unset = dict.fromkeys(("message_id", "parent_id", "seq", "refs", "attachments"))
    records = [record.model_dump(exclude={"digest"}) for record in message.attachments or ()]
    attachments = tuple(
        Attachment(**{**record, "format": record["format"] or "", "name": record["name"] or ""})
        for record in records
    )
    return HostMessage(
        message.model_copy(update=unset),
        Origin.TOOL_CALL if message.tool_calls else ORIGINS[message.role],
        message.message_id,
        error=message.role is Role.TOOL and message.status == "error",
        attachments=attachments,
    )


def _utc(place: int, at: str) -> str:
    if (moment := parse_time(at)) is None:
        raise SchemaValidationError(
            f"messages[{place}].at is no time in ISO 8601: write it as 2026-05-08T13:56:00Z, or leave "
            "it out"
        )
    return iso(moment)


def _repaired(hosts: Sequence[HostMessage]) -> tuple[list[HostMessage], list[str]]:
    """The list without results that answer nothing, as no provider takes them, and what was left out."""
    kept_hosts: list[HostMessage] = []
    notes: list[str] = []
    waiting: list[str | None] = []
    for n, host in enumerate(hosts):
        message = host.message
        if message.role is Role.TOOL and not host.protected:
            answered = [i for i in (message.tool_call_id, *host.more_call_ids) if i in waiting]
            if not answered:
                notes.append(
                    f"message {n} is left out: the result of tool call "
                    f"{message.tool_call_id!r}, which no message before it waits for"
                )
                continue
            for call_id in answered:
                waiting.remove(call_id)
        elif message.role is not Role.SYSTEM and message.tool_calls:
            waiting += [call.id for call in message.tool_calls]
        kept_hosts.append(host)
    return kept_hosts, notes
