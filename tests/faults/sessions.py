"""Many sessions in one process, and everything that we hold while they come and go."""

from __future__ import annotations

import random
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage, HumanMessage

from ce_engine import ContextEngine, HostMessage, ModelCall, Scope
from ce_engine.runtime.bounded_dict import BoundedDict
from ce_engine.testing.host import HostApp, assistant, user
from ce_integrations import ce_session
from ce_integrations.wrapping.bounded_maps import BoundedMap


OURS = ("ce_engine", "ce_integrations")
LEAVES = (str, bytes, int, float, bool, type(None), type)
WORDS = "Some words of a person about {0}, which is the matter at hand. " * 6
ANSWER = "The answer to it, in some words as well. " * 6


def scope(n: int) -> Scope:
    return Scope(session_id=f"session-{n}", user_id=f"user-{n}")


def talk(engine: ContextEngine, n: int, *, ends: bool = True) -> None:
    """Two turns of one session by hand; without `ends` a third is begun, and never ended."""
    app = HostApp(engine, scope(n))
    for turn in range(2):
        app.ask(WORDS.format(f"{n}-{turn}"), ANSWER)
    if not ends:
        app.prepare(user("And?"))


def chat(model: FakeListChatModel, n: int) -> None:
    """Two turns of one session through LangChain, and a call in a session that nobody named."""
    messages: list[BaseMessage] = []
    with ce_session(f"session-{n}", user_id=f"user-{n}"):
        for turn in range(2):
            messages.append(HumanMessage(WORDS.format(f"{n}-{turn}")))
            messages.append(model.invoke(messages))
    model.invoke([HumanMessage(WORDS.format(n))])


def ask(model: FakeListChatModel, n: int) -> None:
    """One call in a session of its own."""
    with ce_session(f"session-{n}"):
        model.invoke([HumanMessage(f"Question {n}, about something or other.")])


def contents(n: int) -> list[str]:
    """What is stored of a session."""
    return [text for turn in range(2) for text in (WORDS.format(f"{n}-{turn}"), ANSWER)]


def come_back(engine: ContextEngine, n: int) -> str:
    """Ask in a session that may be forgotten, with its list; what is wrong with it ("" if nothing)."""
    messages = [
        user(text) if at % 2 == 0 else assistant(text) for at, text in enumerate(contents(n))
    ]
    app = HostApp(engine, scope(n), messages, requests=10)
    app.ask("Again?", "Yes.")
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(scope(n)))
    texts = [message.content for message in found.session.messages] if found else []
    wanted = [*contents(n), "Again?", "Yes."]
    begun = [*contents(n), "And?", "Again?", "Yes."]  # where a turn was begun and never ended
    return (
        ""
        if texts in (wanted, begun)
        else f"session {n} holds {len(texts)} messages: {texts!r:.200}"
    )


def held() -> Counter[str]:
    """How many things each container of ours holds, by class and attribute, summed over its objects.

    Looks from our modules and from the objects that they hold; containers that are bounded by what
    they are (`BoundedDict`, `BoundedMap`) are left out.
    """
    found: Counter[str] = Counter()
    seen: dict[int, object] = {}
    waiting: deque[tuple[str, object]] = deque()
    for name, module in list(sys.modules.items()):
        if name.startswith(OURS) and "testing" not in name:
            waiting.extend((f"{name}.{key}", value) for key, value in list(vars(module).items()))
    waiting.extend(("engine", each) for each in _engines)
    while waiting:
        name, value = waiting.popleft()
        if isinstance(value, (*LEAVES, BoundedDict, BoundedMap)) or id(value) in seen:
            continue
        seen[id(value)] = value
        children = list(_children(value, name))
        if isinstance(value, Mapping | list | AbstractSet | deque):
            found[name] += len(children)
        waiting.extend(children)
    return found


_engines: list[ContextEngine] = []


def watch(engine: ContextEngine) -> None:
    """Have `held` look into an engine."""
    _engines[:] = [engine]


def _children(value: Any, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((name, each) for each in list(value.values()))
    elif isinstance(value, list | tuple | AbstractSet | deque):
        yield from ((name, each) for each in list(value))
    elif type(value).__module__.startswith(OURS) and not isinstance(value, HostMessage | ModelCall):
        own = type(value).__name__
        slots = (slot for each in type(value).__mro__ for slot in getattr(each, "__slots__", ()))
        for attribute in {*getattr(value, "__dict__", {}), *slots}:
            yield f"{own}.{attribute}", getattr(value, attribute, None)


def grown(before: Counter[str], after: Counter[str], more_than: int) -> dict[str, tuple[int, int]]:
    """Containers that hold more than before, by so many at least."""
    return {
        name: (before[name], count)
        for name, count in after.items()
        if count - before[name] > more_than
    }


def some(count: int, of: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(of), min(count, of))


def fake_model() -> FakeListChatModel:
    return FakeListChatModel(responses=[ANSWER])
