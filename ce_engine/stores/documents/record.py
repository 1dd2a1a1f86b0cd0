"""A session, or what a write changed in it, as plain data for JSON, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from itertools import islice
from operator import is_
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter

from ce_engine.schema.rows import SessionHead
from ce_engine.stores import sealing
from ce_engine.stores.codec import compact, from_json, to_json
from ce_engine.stores.documents.session import StoredSession


Data = dict[str, Any]

NOTHING = StoredSession(SessionHead())
"""What a session is compared with that is written whole."""

OPEN = frozenset(
    {
        *("head", "made_at", "last_evidence", "last_accessed_at", "access_count", "frameworks"),
        *("cuts", "placeholders", "forged", "older"),
    }
)
"""What stays readable where content is sealed: numbers, times and names; of all else an item is one text."""

_KEYS: dict[str, Callable[[Any], Any]] = {
    "evidence": lambda row: row.evidence.evidence_id,
    "blocks": lambda block: block.block_id,
    "calls": lambda row: row.call.tool_call_id,
    "usages": lambda usage: usage.model_usage_id,
    "tasks": lambda task: task.task_id,
    "turns": lambda turn: turn.turn_id,
    "cuts": lambda mark: (mark.lane_key, mark.kind, mark.anchor_message_id),
    "summaries": lambda row: row.anchor_message_id,
    "placeholders": lambda item: (item.label, item.mac),
}
"""The key under which a dict of `StoredSession` has an item."""


def difference(old: StoredSession, new: StoredSession) -> Data:
    """What `absorb` needs to make `new` of `old`: new values, added items, and lists that `restart`.

    Items that stay are the same objects in both, as `StoredSession.draft` leaves them.
    """
    record: Data = {"head": _plain(new.head)}
    restart = []
    for name, part in _parts().items():
        before, after = getattr(old, name), getattr(new, name)
        if part.single:
            if after != before:
                record[name] = _sealed(name, _plain(after))
            continue
        added = _added(before, after)
        if added is None:
            restart.append(name)
            added = list(after.values() if part.key else after)
        if added:
            record[name] = [_sealed(name, _plain(item)) for item in added]
    return {**record, "restart": restart} if restart else record


def _added(old: Any, new: Any) -> list[Any] | None:
    """The items to put to `old` so that it is `new`; `None` where some would have to go."""
    if isinstance(new, list):
        stay = len(old) <= len(new) and all(map(is_, old, new))
        return new[len(old) :] if stay else None
    if list(islice(new, len(old))) != list(old):
        return None
    return [item for key, item in new.items() if old.get(key) is not item]


def absorb(state: StoredSession, record: Data) -> None:
    """Change the session by a record of `difference`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it is none.
    """
    for name in record.pop("restart", ()):
        setattr(state, name, type(getattr(state, name))())
    for name, data in record.items():
        part = _parts()[name]
        value = part.adapter.validate_python(_with_bytes(part.bytes, _opened(name, data)))
        if part.single:
            setattr(state, name, value)
        elif part.key:
            getattr(state, name).update({part.key(item): item for item in value})
        else:
            getattr(state, name).extend(value)


def _plain(value: Any) -> Any:
    """Data for JSON: fields that differ from their defaults, bytes in hexadecimal digits."""
    if isinstance(value, BaseModel):
        return compact(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set):
        return sorted(value)
    if not is_dataclass(value):
        return value
    pairs = ((f, getattr(value, f.name)) for f in fields(value))
    return {f.name: _plain(item) for f, item in pairs if item != _default(f)}


def _sealed(name: str, data: Any) -> Any:
    """One value or item as it is kept: as sealed text where the store has a key."""
    if name in OPEN or data is None or sealing.active().cipher is None:
        return data
    return sealing.seal_text(name, to_json(data))


def _opened(name: str, data: Any) -> Any:
    """A value, or a list of items, as they were; what is kept open is not looked at: a name may look sealed."""
    if name in OPEN:
        return data
    if isinstance(data, list):
        return [_opened(name, item) for item in data]
    return from_json(sealing.unseal_text(name, data)) if sealing.is_sealed(data) else data


def sealed_by(record: Data) -> set[str]:
    """What sealed the content of a record; with an empty id if some of it is in the open."""
    values = (value for name, value in record.items() if name not in OPEN and name in _parts())
    items = (item for value in values for item in (value if isinstance(value, list) else [value]))
    return {sealing.key_id_of(item) if isinstance(item, str) else "" for item in items}


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _with_bytes(names: list[str], data: Any) -> Any:
    """The data with the fields of these names as bytes again."""
    for item in data if isinstance(data, list) else [data]:
        for name in names:
            if item.get(name) is not None:
                item[name] = bytes.fromhex(item[name])
    return data


@dataclass(frozen=True, slots=True)
class _Part:
    """How one field of `StoredSession` is written: as one value, or as a list of items."""

    adapter: TypeAdapter[Any]
    single: bool
    key: Callable[[Any], Any] | None
    bytes: list[str]


@cache
def _parts() -> dict[str, _Part]:
    return {name: _part(name, hint) for name, hint in get_type_hints(StoredSession).items()}


def _part(name: str, hint: Any) -> _Part:
    single = get_origin(hint) not in (list, dict)
    kind = hint if single else get_args(hint)[-1]
    hints = get_type_hints(kind) if is_dataclass(kind) else {}
    in_bytes = [name for name, of in hints.items() if of in (bytes, bytes | None)]
    key = _KEYS[name] if get_origin(hint) is dict else None
    shape: Any = kind if single else GenericAlias(list, kind)
    return _Part(TypeAdapter(shape), single, key, in_bytes)
