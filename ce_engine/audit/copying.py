"""Copies sessions from one store to another, so that what cannot be copied whole is not there at all (19 B.8).

Everything keyed goes along as it is: salts, fingerprints, the events and their chain. So both stores must
have the same secret. MACs of rows are over the very bytes of a store: a copy makes them anew, and nothing is
copied that its own store does not verify, lest what was forged become genuine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ce_engine.audit.verifying import Verifying, verified_session
from ce_engine.errors import ContextEngineError, StoreError
from ce_engine.schema.document import Task
from ce_engine.schema.enums import TaskStatus, TurnStatus
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Standing
from ce_engine.stores.base import SEALED_BY, BaseStore
from ce_engine.stores.codec import compact
from ce_engine.stores.row_rules import not_resting_on


if TYPE_CHECKING:
    from ce_engine.stores.documents.session import StoredSession


_STEPS = {TaskStatus.PENDING: 0, TaskStatus.IN_PROGRESS: 1}
_ENDED = 2
"""Where a task goes on no more, however it ended; one that is begun anew is told apart when it ends."""
_OWN = {"made_at", "access_count", "last_accessed_at", "forged", "older"}
"""What each store says for itself."""
GENUINE = frozenset({"intact", "deleted"})


@dataclass(slots=True)
class CopyReport:
    """What a copy did.

    Attributes:
        copied: sessions that were put into the target, and read and verified there.
        renewed: those of them of which an earlier state was there.
        there: sessions that were there already, just so.
        settings: settings of owners that were put there.
        unverified_settings: those of them that an older release wrote, without MACs; they are so there, too.
        problems: what was left out or is not equal, and why; no content.
    """

    copied: int = 0
    renewed: int = 0
    there: int = 0
    settings: int = 0
    unverified_settings: int = 0
    problems: list[str] = field(default_factory=list)


async def copy_store(
    source: Verifying,
    target: Verifying,
    keys: Sequence[tuple[str, str, str]],
    owners: Callable[[str, str], bool],
    advance: Callable[[], None],
) -> CopyReport:
    """Copy the sessions of these keys, and the settings of these owners.

    Raises:
        StoreError: a store has no way to copy, or cannot be read or written at all.
    """
    report = CopyReport()
    for key in keys:
        scope = Scope.of_stored(*key)
        try:
            is_new, is_renewed = await _copied(source, target, scope)
        except ContextEngineError as error:
            report.problems.append(
                f"session {scope.session_id!r} of user {scope.user_id!r}: {error}"
            )
        else:
            report.copied += is_new
            report.renewed += is_renewed
            report.there += not is_new
        advance()
    report.problems += await _base(source).damaged()
    await _copy_settings(_base(source), _base(target), owners, report)
    return report


def _base(engine: Verifying) -> BaseStore:
    store: Any = engine.store
    if not isinstance(store, BaseStore):
        raise StoreError(f"the store {store.url!r} has no way to copy sessions")
    return store


async def _copied(source: Verifying, target: Verifying, scope: Scope) -> tuple[bool, bool]:
    """Copy one session: whether it was not there already, and whether an earlier state of it was."""
    session, scope, status = await _genuine(source, scope)
    there = await _base(target).whole(scope)
    is_renewed = there is not None and _is_earlier(there, session)
    is_new = there is None or is_renewed
    if is_new:
        await _base(target).put_whole(scope, session, there.head.version if there else 0)
        there = await _base(target).whole(scope)
    if wrong := differences(session, there):
        raise StoreError(
            f"what is in the target differs in {', '.join(wrong)}. It was left as it is: copy to another "
            "store, or compare the two with `ce show`."
        )
    if (verification := await target.verify(scope)).status != status:
        raise StoreError(f"it was copied, and is {verification.status} there, {status} here")
    return is_new, is_renewed


async def _genuine(source: Verifying, scope: Scope) -> tuple[StoredSession, Scope, str]:
    """A session that was verified, as it was read for that: what somebody puts there before or after is not in it."""
    found = await verified_session(source, _base(source), scope)
    if found is None:
        raise StoreError("it is not there any more")
    read, verification = found
    # What nothing reads is not copied, and says nothing of the rest.
    status = replace(verification, uncounted=()).status
    if status not in GENUINE:
        why = (
            "; ".join((*verification.wrong, *verification.unverified))
            or "an event is not what was recorded"
        )
        raise StoreError(f"it was not copied: `ce verify` finds it {status} ({why})")
    return read.session, Scope.of_stored(*scope.key, read.chain.head.project_id), status


def _is_earlier(there: StoredSession, session: StoredSession) -> bool:
    """Whether what is there is nothing but what the session was once: its log is the beginning of this one's."""
    head, events = there.head, session.events
    if head.version >= session.head.version or head.salt != session.head.salt or not there.events:
        return False
    if head.epoch > session.head.epoch:  # its document was replaced there
        return False
    last = head.last_event_seq
    if last > len(events) or events[last - 1].hash != head.chain_head:
        return False
    if there.messages != session.messages[: len(there.messages)]:
        return False
    parts = ("evidence", "calls", "usages", "tasks", "turns", "placeholders")
    if not all(getattr(there, name).keys() <= getattr(session, name).keys() for name in parts):
        return False
    return _is_nothing_lost(there, session, events[last:])


def _is_nothing_lost(there: StoredSession, session: StoredSession, later: Sequence[Event]) -> bool:
    """Whether the session has each row of what is there, or goes on from it.

    Most rows change with an event that names them. No event tells of blocks and tasks: nobody knows which of
    two is the newer, so a block is the same, and a task has gone on at most.
    """
    blocks = list(there.blocks.values())
    told: set[str | None] = set()
    for event in later:
        told |= {event.turn_id, event.tool_call_id, event.model_usage_id}
        if event.event_type == EventType.DELETED:
            blocks = not_resting_on(blocks, event.payload.get("evidence_id", ""))
    is_told = told.__contains__
    now = session.evidence
    return (
        all(
            now[key].evidence.content in {"", row.evidence.content}
            for key, row in there.evidence.items()
        )
        and all(session.blocks.get(block.block_id) == block for block in blocks)
        and all(_has_gone_on(task, session.tasks[key]) for key, task in there.tasks.items())
        and all(is_told(key) or session.calls[key] == row for key, row in there.calls.items())
        and all(is_told(key) or session.usages[key] == row for key, row in there.usages.items())
        and all(
            is_told(key) or row.status is TurnStatus.OPEN or session.turns[key] == row
            for key, row in there.turns.items()
        )
        and there.placeholders.items() <= session.placeholders.items()
    )


def _has_gone_on(there: Task, task: Task) -> bool:
    """Whether a task is the same one, as far as it was, or further."""
    moved = {name: getattr(task, name) for name in ("status", "result_evidence_ids", "error")}
    return there == task or (
        _STEPS.get(there.status, _ENDED) < _STEPS.get(task.status, _ENDED)
        and there.model_copy(update=moved) == task
    )


def differences(session: StoredSession, other: StoredSession | None) -> list[str]:
    """The parts in which two sessions differ, each with its counts."""
    if other is None:
        return ["everything: it is not there"]
    parts = []
    for name in (attribute.name for attribute in fields(session) if attribute.name not in _OWN):
        value, other_value = _comparable(getattr(session, name)), _comparable(getattr(other, name))
        if value != other_value:
            counts = f" ({len(value)}, {len(other_value)})" if isinstance(value, list) else ""
            parts.append(f"{name}{counts}")
    return parts


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return list(value.items())
    if type(value).__name__ == "Meta":
        return compact(value, {"created_at", "updated_at"})
    return sorted(value - {""}) if isinstance(value, set) else value


async def _copy_settings(
    source: BaseStore, target: BaseStore, owners: Callable[[str, str], bool], report: CopyReport
) -> None:
    for (account, user, project, name), setting in (await source.list_settings()).items():
        if (account, user) == (SEALED_BY.account_id, SEALED_BY.user_id) or not owners(
            account, user
        ):
            continue
        scope = Scope.of_stored(account, user, "", project)
        if setting.standing is Standing.FORGED:
            report.problems.append(
                f"setting {name!r} of user {user!r}: it was not copied: `ce verify` finds it forged"
            )
            continue
        there = await target.get_setting(scope, name)
        if there is None:
            await target.put_setting(scope, name, setting.value, 0, standing=setting.standing)
            report.settings += 1
            report.unverified_settings += setting.standing is Standing.UNVERIFIED
        elif there.value != setting.value:
            report.problems.append(
                f"setting {name!r} of user {user!r}: another value is in the target, and was left"
            )
