"""The list of doors is whole: every text that a public method takes is tried with a canary, or excused by name."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from ce_engine import ContextEngine, RuntimeConfig
from ce_engine.schema.call import TurnHandle
from tests.canary.canaries import Canaries
from tests.canary.doors import DOORS, Visitor
from tests.canary.more_doors import FOREIGN, MORE_DOORS, make_engine


KEYS = "the key of all stored data: stored as given, and README says so"
OURS = "the engine's own: nobody else sets it"
EXCUSED = {
    "Scope.user_id": KEYS,
    "Scope.account_id": KEYS,
    "Scope.project_id": KEYS,
    "delete_user_data.account_id": KEYS,
    "delete_user_data.user_id": KEYS,
    "export_user_data.account_id": KEYS,
    "export_user_data.user_id": KEYS,
    "verify_settings.account_id": KEYS,
    "verify_settings.user_id": KEYS,
    **dict.fromkeys(
        (f"RetentionRule.{name}" for name in ("account_id", "user_id", "project_id")),
        "compared with keys, and never stored",
    ),
    "RuntimeConfig.memory_opt_out": "a function, which is nowhere stored or printed",
    "RedactionConfig.originals_url": "where the operator's second store is; stores do not hold their URLs",
    "RedactionConfig.detector": "an object, of which only its name is told",
    "PruneConfig.strategy": "a word of ours, or an object, of which only its class is told",
    "StoreConfig.encryption": "a key, which is nowhere stored or printed: test_sealed_stores has it",
    "verify.anchors": "lines of ours, which are compared and never stored",
    **dict.fromkeys((f"post_fault.{name}" for name in ("code", "where", "framework")), OURS),
    "HostMessage.counted": OURS,
    "ModelCall.batch": OURS,
    "HostMessage.recognised": OURS,
}
BY_US = {TurnHandle}
"""Types that the engine gives, and takes back."""


def leaves(hint: Any) -> Iterator[Any]:
    """The types that a value of this hint may hold, seen through unions and containers."""
    origin = get_origin(hint)
    if origin is Literal:
        return
    if origin in (Union, types.UnionType, list, dict, tuple, set, frozenset, Sequence, Mapping):
        for inner in get_args(hint):
            yield from leaves(inner)
    elif hint in (Mapping, Sequence, dict, list):
        yield Any
    else:
        yield hint


def fields(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, localns={"RuntimeConfig": RuntimeConfig})
    if issubclass(kind, BaseModel):
        return {name: hints[name] for name in kind.model_fields}
    return hints if dataclasses.is_dataclass(kind) else {}


def texts(name: str, hint: Any, seen: set[type]) -> Iterator[str]:
    """The names of what carries text in a value of this hint; `name` is the value's own."""
    for leaf in leaves(hint):
        if leaf in (str, Any, object):
            yield name
        elif isinstance(leaf, type) and leaf not in seen | BY_US:
            seen.add(leaf)
            for field, inner in fields(leaf).items():
                yield from texts(f"{leaf.__name__}.{field}", inner, seen)


def methods(thing: object) -> dict[str, Callable[..., Any]]:
    return {
        name: member
        for name, member in inspect.getmembers(type(thing), inspect.isfunction)
        if not name.startswith("_")
    }


def engine_doors(engine: ContextEngine) -> set[str]:
    seen: set[type] = set()
    found = set()
    for prefix, thing in (
        ("", engine),
        ("constraints.", engine.constraints),
        ("budgets.", engine.budgets),
    ):
        for name, method in methods(thing).items():
            hints = get_type_hints(method)
            hints.pop("return", None)
            for parameter, hint in hints.items():
                found |= set(texts(f"{prefix}{name}.{parameter}", hint, seen))
    return {text for text in found if not text.endswith((".session_id", ".scope"))}


@pytest.mark.req("B-02")
def test_every_text_that_is_taken_is_a_tested_door() -> None:
    canary = Canaries(0)
    engine = make_engine("memory://", canary)
    try:
        visitor = Visitor(engine, canary)
        visitor.go([*DOORS, *MORE_DOORS])
        there = engine_doors(engine)
    finally:
        engine.sync.close()
    assert len(there) > 80
    assert sorted(there - canary.doors - EXCUSED.keys()) == []
    assert sorted((EXCUSED.keys() | canary.doors) - there - FOREIGN) == []
