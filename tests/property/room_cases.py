"""Random apps, run as they are and run with us, with room to spare: what all frameworks' cases share.

Sessions have few ids and one engine for all cases of a process, so that there is always something
stored that could be brought in, and nobody asks for it. `tight_cases` runs the same apps without room.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, ClassVar, Self

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    InMemoryEventBus,
    MemoryStore,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_integrations import ce_role, ce_session
from ce_integrations.testing.adapter_budget import LONG_PAGES
from ce_integrations.testing.adapter_pictures import png
from ce_integrations.testing.answers import Answer, JsonObject, default_text, text, tool_calls
from ce_integrations.testing.framework_apps import FrameworkApps, Page, Surface
from ce_integrations.testing.wire import Wire
from tests.property.tool_cases import CHINESE, ENGLISH, JSON


SESSIONS = ("customer-1", "customer-2", "客户三", "default", "")
PAGES = (
    Page("A lane is a line of conversation.", "pages/lane.md", 0.9),
    Page("车道是一条对话线。", "pages/车道.md", 0.8),
    *LONG_PAGES[:2],
)
SHORT = ("yes", "好", "again", "yes")
ROOM = BudgetConfig(max_input_tokens=1_000_000)
LATE_S = 10.0
"""How long an event may take on a machine that does other things."""


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思 {len(word)}"


def broken(word: str) -> str:
    """Fail on every word."""
    raise ValueError(f"no such word: {word}")


def reply(body: JsonObject) -> Answer:
    """What the model says: it depends on the request alone, so that equal requests go on equally."""
    messages = body.get("messages") or [{"role": "user", "content": body.get("prompt")}]
    digest = hashlib.blake2b(json.dumps(messages).encode()).digest()
    tools, chosen = body.get("tools") or (), body.get("tool_choice")
    must = chosen == "required" or isinstance(chosen, dict)
    if tools and chosen != "none" and (must or (messages[-1]["role"] == "user" and digest[0] % 2)):
        tool = tools[digest[1] % len(tools)]["function"]
        # What takes its time may end in another order each time, with us or without.
        twice = (
            not must and tool["name"] in (lookup.__name__, broken.__name__) and digest[2] % 3 == 0
        )
        calls = [(tool["name"], _instance(tool))] * (1 + twice)
        return tool_calls(calls, [f"call_{digest[n : n + 4].hex()}" for n in range(len(calls))])
    if "Read the above" in str(messages[0]["content"]):
        return text("critic")
    schema = (body.get("response_format") or {}).get("json_schema")
    if schema:
        return text(json.dumps(_value(schema["schema"])))
    more = " ".join([*ENGLISH, *CHINESE] * (digest[3] % 4)) if digest[4] % 4 == 0 else ""
    return text(f"{default_text(body)} {more}".strip())


def _instance(function: JsonObject) -> JsonObject:
    made = _value(function.get("parameters") or {})
    return made if isinstance(made, dict) else {}


def _value(schema: JsonObject) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object" or "properties" in schema:
        return {name: _value(part) for name, part in schema.get("properties", {}).items()}
    return {"integer": 1, "number": 1.5, "boolean": True, "array": []}.get(
        schema.get("type", ""), "lane"
    )


@dataclass(frozen=True)
class App:
    """An app: what is installed on, and what it does, step by step; an awaitable is awaited.

    Attributes:
        ordered: requests go out one after the other.
        whole: all that is asked goes through the target.
    """

    target: Any
    steps: Sequence[Callable[[], Any]]
    ordered: bool = True
    whole: bool = True


@dataclass(frozen=True)
class Play:
    """What an app gave, and the bodies that it sent."""

    results: list[Any]
    bodies: list[bytes]
    whole: bool
    refused: bool


class Rig:
    """What all cases of a process share: an event loop, a model server, an engine that forgets nothing."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.wire = Wire(reply)
        self.prepared = 0
        self.apps: Sequence[FrameworkApps] = ()
        bus = InMemoryEventBus()
        bus.on("Assembled", self._count)
        config = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault
        self.engine = create_context_engine(MemoryStore(), config=config, event_bus=bus)

    async def aclose(self) -> None:
        """Close the clients."""
        for apps in self.apps:
            await apps.aclose()

    def has_prepared(self, before: int) -> bool:
        """Whether more was prepared since; the bus may tell a little later than the store."""
        end = time.monotonic() + LATE_S
        while self.prepared == before and time.monotonic() < end:
            time.sleep(0.01)
        return self.prepared > before

    def _count(self, _: Any) -> None:
        self.prepared += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.run_until_complete(self.aclose())
        self.engine.sync.close()
        self.wire.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class Maker:
    """Random parts of apps that are the same in every framework."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def words(self) -> str:
        """What a person says; often what was said before."""
        if self.chance(0.3):
            return self.rng.choice(SHORT)
        kind, most = self.rng.choice((ENGLISH, CHINESE, JSON)), self.rng.choice((8, 8, 8, 120))
        return " ".join(self.rng.choices(kind, k=self.rng.randint(1, most)))

    def questions(self) -> list[str]:
        return [self.words() for _ in range(self.rng.choice((1, 2, 2, 3, 4)))]

    def session(self) -> str:
        return self.rng.choice(SESSIONS)

    def whose(self) -> Callable[[], AbstractContextManager[Any]]:
        """What an app says round a step of whose it is."""
        session, user, kind = self.session(), self.rng.choice(("ann", "李雷")), self.rng.random()
        if kind < 0.4 or not session:
            return nullcontext
        if kind < 0.6:
            return lambda: ce_session(session)
        if kind < 0.9:
            return lambda: ce_session(session, user_id=user)
        return lambda: ce_role("worker")

    def in_sessions(self, steps: Sequence[Callable[[], Any]]) -> list[Callable[[], Any]]:
        return [self._inside(step) for step in steps]

    def _inside(self, step: Callable[[], Any]) -> Callable[[], Any]:
        block = self.whose()

        def inside() -> Any:
            with block():
                made = step()
                return _awaited(made, block) if inspect.isawaitable(made) else made

        return inside

    def options(self) -> dict[str, Any]:
        """What `install_ce` is told; with room, whatever it is."""
        config: dict[str, Any] = {"placement": self.rng.choice(("seed", "cache"))}
        if self.chance(0.5):
            config["budget"] = ROOM
        said: dict[str, Any] = {"config": RuntimeConfig(**config)} if self.chance(0.5) else {}
        session, kind = self.session(), self.rng.random()
        if session and kind < 0.2:
            said["session_id"] = session
        elif session and kind < 0.4:
            said["session_id"] = lambda info: session
        elif session and kind < 0.5:
            said["scope"] = Scope(session_id=session, user_id="ann")
        elif kind < 0.6:
            said["user_id"] = "ann"
        return said


async def _awaited(made: Any, block: Callable[[], AbstractContextManager[Any]]) -> Any:
    with block():
        return await made


@dataclass
class Case(ABC):
    """One random app: bare and with us it sends the same bytes and gets the same."""

    install: ClassVar[Callable[..., Any]]

    seed: int
    rig: Rig
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, seed: int, rig: Any) -> Self:
        return cls(seed, rig)

    @abstractmethod
    def app(self, rng: Random) -> App:
        """Make an app; the same one each time for the same random numbers."""

    async def ends(self) -> None:  # noqa: B027 - not every framework's apps have something open
        """Close what the last app has open."""

    def run(self) -> Counter[str]:
        """Play the app twice; raises `AssertionError` where they differ."""
        plain = self.play()
        if plain.refused:
            # The one exception with room: a list that a provider refuses (calls without their
            # results) goes out repaired, so that the app goes on otherwise from there.
            self.counts["refused without us"] += 1
            return self.counts
        before = self.rig.prepared
        ours = self.play(engine=self.rig.engine, **Maker(Random(f"{self.seed} options")).options())
        assert ours.bodies == plain.bodies, _difference(ours.bodies, plain.bodies)
        assert ours.results == plain.results, f"{ours.results!r:.100} not {plain.results!r:.100}"
        if plain.bodies and ours.whole:
            assert self.rig.has_prepared(before), "nothing was governed"
        self.counts["requests"] += len(plain.bodies)
        return self.counts

    def play(self, *, engine: ContextEngine | None = None, **options: Any) -> Play:
        """Make the app and do what it does; with an engine, after an installation with these options."""
        app, start = self.app(Random(self.seed)), len(self.rig.wire.requests)
        with ExitStack() as stack:
            stack.callback(lambda: self.rig.loop.run_until_complete(self.ends()))
            installation = None
            if engine is not None:
                installation = type(self).install(app.target, engine=engine, **options)
                stack.callback(installation.uninstall)
            results = [self._tried(step) for step in app.steps]
            self.rig.loop.run_until_complete(_rest())
            assert not engine or engine.sync.flush(), (
                "the events of what was prepared are not there"
            )
        assert not (installation and installation.faults), installation.faults
        requests = self.rig.wire.requests[start:]
        refusals = [sent.refusal for sent in requests if sent.refusal]
        assert not (installation and refusals), f"refused: {refusals[0]}"
        bodies = [sent.raw for sent in requests]
        return Play(results, bodies if app.ordered else sorted(bodies), app.whole, bool(refusals))

    def _tried(self, step: Callable[[], Any]) -> Any:
        try:
            made = step()
            return self.rig.loop.run_until_complete(made) if inspect.isawaitable(made) else made
        except Exception as error:  # what an app raises is the same, too
            return f"{type(error).__name__}: {error}"


async def _rest() -> None:
    """Wait for what a step that failed has left behind."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


def _difference(ours: list[bytes], plain: list[bytes]) -> str:
    sizes = f"{len(ours)} bodies in place of {len(plain)}; "
    for one, other in zip(ours, plain, strict=False):
        if one != other:
            sent, bare = json.loads(one).get("messages", ()), json.loads(other).get("messages", ())
            shown = [json.dumps(each, ensure_ascii=False)[:60] for each in sent if each not in bare]
            return f"{sizes}{len(sent)} messages in place of {len(bare)}: {shown[:3]}"
    return sizes


# Apps that a framework's contract tests have


def from_surface(maker: Maker, surface: Surface, apps: Any, wire: Wire) -> App:
    """One of the ways to ask a model, asked several times."""
    target, ask = surface.make(apps, wire)
    steps = [lambda q=question: _shown(ask(q)) for question in maker.questions()]
    return App(target, maker.in_sessions(steps))


def _shown(made: Any) -> Any:
    async def later() -> str:
        return repr(await made)

    return later() if inspect.isawaitable(made) else repr(made)


def from_contract(maker: Maker, apps: FrameworkApps, wire: Wire) -> App:
    """One of the apps of the contract suite, asked in random ways in interleaved sessions."""
    able = apps.adapter.capabilities
    kinds: dict[str, Callable[[], Any]] = {
        "target": lambda: apps.make_target(wire, (lookup, broken)[: 2 * able.tools])
    }
    if able.teams:
        kinds["team"] = lambda: apps.make_team(wire)
    if able.groups:
        kinds["group"] = lambda: apps.make_group(wire)
    if able.helpers:
        kinds["helped"] = lambda: apps.make_helped(wire)
    if able.retrieval:
        kinds["retrieving"] = lambda: apps.make_retrieving(wire, PAGES)
    kind = maker.rng.choice(sorted(kinds))
    target, sessions = kinds[kind](), SESSIONS if able.threads else SESSIONS[:1]
    ask = partial(_ask, maker, apps, target, shows=kind == "target")
    steps = [ask(question, maker.rng.choice(sessions)) for question in maker.questions()]
    return App(target, steps)


def _hears(_: str) -> None:
    """An app's callback."""


def _ask(
    maker: Maker, apps: FrameworkApps, target: Any, question: str, session: str, *, shows: bool
) -> Callable[[], Any]:
    way, show = maker.rng.choice(apps.adapter.capabilities.ways), apps.show
    if show is not None and shows and maker.chance(0.2):
        picture = png(maker.rng.choice((3, 700)), 2, maker.rng.randrange(256))
        return lambda: show(target, question, picture, session)
    if way == "sync":
        return lambda: apps.ask(target, question, session)
    if way == "async":
        return lambda: apps.aask(target, question, session)
    if way == "stream":
        return lambda: list(apps.stream(target, question, session))
    if way in ("push", "apush"):
        return lambda: getattr(apps, way)(target, question, session, _hears)

    async def pieces() -> list[str]:
        return [piece async for piece in apps.astream(target, question, session)]

    return pieces
