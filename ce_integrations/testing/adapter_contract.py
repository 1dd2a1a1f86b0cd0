"""What every adapter must do, as tests: subclass `AdapterContract` and give it an app of the framework (A-27)."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from logging import getLogger
from threading import Barrier
from typing import Any

import pytest

from ce_engine import ConfigError
from ce_integrations.identity.session import ce_session
from ce_integrations.install.adapter import Way
from ce_integrations.testing.adapter_budget import Budgets
from ce_integrations.testing.adapter_pictures import Pictures
from ce_integrations.testing.adapter_results import Results
from ce_integrations.testing.adapter_turns_taken import TurnsTaken
from ce_integrations.testing.answers import Answer, JsonObject, error, text
from ce_integrations.testing.contract_case import ANSWERS, QUESTIONS, echo
from ce_integrations.testing.framework_apps import AWAITED, FrameworkApps, needs, ways
from ce_integrations.testing.side_by_side import SideBySide
from ce_integrations.testing.wire import Wire
from ce_integrations.wrapping.walk import walk


PEOPLE = ("ann", "李雷")
ROUNDS = 3
METHODS: dict[str, tuple[str, ...]] = {
    "sync": ("ask",),
    "async": ("aask",),
    "stream": ("stream",),
    "astream": ("astream",),
    "push": ("push",),
    "apush": ("apush",),
    "teams": ("make_team",),
    "groups": ("make_group",),
    "helpers": ("make_helped", "aside"),
    "retrieval": ("make_retrieving",),
    "elsewhere": ("make_elsewhere",),
}
"""What a subclass gives for each way and capability."""


class AdapterContract(TurnsTaken, Pictures, Results, Budgets):
    """Everything that an adapter promises to the apps of its framework.

    A subclass gives the members of `FrameworkApps` and nothing else. What the framework cannot do
    stands in its adapter's `Capabilities`; each test runs in each way of asking that is there.

    ```python
    class TestAcme(AdapterContract):
        adapter = ADAPTER
        packages = ("acme",)
        ...
    ```
    """

    def test_what_it_declares_is_what_it_gives(self) -> None:
        able = self.adapter.capabilities
        declared = {*able.ways, *(name for name in METHODS if getattr(able, name, False))}
        given_names = {
            name
            for name, methods in METHODS.items()
            if all(getattr(type(self), m) is not getattr(FrameworkApps, m) for m in methods)
        }
        assert given_names == declared
        assert self.adapter.name
        assert self.adapter.requires

    # Sessions

    def test_two_sessions_at_once_never_mix(self, trial: SideBySide, way: Way) -> None:
        with Wire(echo) as wire:
            shared = self.make_target(wire)
            threads = self.adapter.capabilities.threads
            targets = [shared, shared if threads else self.make_target(wire)]
            installed = [self.adapter.install_ce(target, engine=trial.engine) for target in targets]
            self._talk_at_once(trial, targets, way)
            for installation in installed:
                installation.uninstall()
            assert wire.refusals == []
            bodies = wire.bodies
        assert len(bodies) == len(PEOPLE) * ROUNDS
        for body in bodies:
            assert len(_people(str(body["messages"]))) == 1
        for person in PEOPLE:
            texts = [m.content for m in trial.document(f"session of {person}").session.messages]
            assert texts == [
                words
                for n in range(ROUNDS)
                for words in (f"{person} says {n}", f"heard: {person} says {n}")
            ]

    def test_what_nobody_named_is_each_app_s_own(self, trial: SideBySide, way: Way) -> None:
        """Its next run goes on with it, and nothing is brought in."""
        talk = [(person, f"{person} says {n}") for n in range(ROUNDS) for person in PEOPLE]
        plain, ce_raw = (
            self._talking(trial, talk, way),
            self._talking(trial, talk, way, install=True),
        )
        assert ce_raw == plain
        assert trial.sessions(ephemeral=False) == []
        stored_texts = [
            [message.content for message in trial.document(session_id).session.messages]
            for session_id in trial.sessions()
        ]
        own = ([words for speaker, words in talk if speaker == person] for person in PEOPLE)
        assert sorted(stored_texts) == sorted(
            [line for words in texts for line in (words, f"heard: {words}")] for texts in own
        )

    def _talking(
        self, trial: SideBySide, talk: list[tuple[str, str]], way: Way, *, install: bool = False
    ) -> list[bytes]:
        """Each person has an app, and says no session; gives what went out."""
        with Wire(echo) as wire, ExitStack() as installed:
            targets = {person: self.make_target(wire) for person in PEOPLE}
            for target in targets.values() if install else ():
                installed.enter_context(self.adapter.install_ce(target, engine=trial.engine))
            for person, words in talk:
                assert trial.ask(targets[person], words, way, "") == f"heard: {words}"
            return [request.raw for request in wire.requests]

    @needs("elsewhere")
    def test_what_is_said_where_the_app_asks_holds_where_it_works(
        self, trial: SideBySide, way: Way
    ) -> None:
        async def make() -> Any:
            with ce_session("who started it", user_id="somebody"):
                return self.make_elsewhere(wire)

        with Wire(echo) as wire, ExitStack() as installed:
            for person in (*PEOPLE, ""):
                target = trial.run(make())
                installed.enter_context(self.adapter.install_ce(target, engine=trial.engine))
                trial.ask(target, f"{person} says so", way, person and f"session of {person}")
        session_ids = {f"session of {person}" for person in PEOPLE}
        assert set(trial.sessions(ephemeral=False)) == session_ids
        assert len(trial.sessions()) == len(PEOPLE) + 1
        for person in PEOPLE:
            texts = [m.content for m in trial.document(f"session of {person}").session.messages]
            assert texts == [f"{person} says so", f"heard: {person} says so"]

    def _talk_at_once(self, trial: SideBySide, targets: list[Any], way: Way) -> None:
        if way in AWAITED:
            trial.run(self._tasks(trial, targets, way))
            return
        ready = Barrier(len(PEOPLE), timeout=20)

        def talk(person: str, target: Any) -> None:
            for n in range(ROUNDS):
                ready.wait()
                trial.ask(target, f"{person} says {n}", way, f"session of {person}")

        with ThreadPoolExecutor(len(PEOPLE)) as pool:
            list(pool.map(talk, PEOPLE, targets))

    async def _tasks(self, trial: SideBySide, targets: list[Any], way: Way) -> None:
        for n in range(ROUNDS):
            await asyncio.gather(
                *(
                    trial.aask(target, f"{person} says {n}", way, f"session of {person}")
                    for person, target in zip(PEOPLE, targets, strict=True)
                )
            )

    # When we fail

    def test_without_a_store_the_app_goes_on_as_before(self, trial: SideBySide, way: Way) -> None:
        asking = trial.asking(QUESTIONS, way)

        def drive(target: Any) -> Any:
            trial.store.refuses = True
            result = asking(target)
            trial.store.refuses = False
            return result

        trial.production()
        plain, ce_run = self.both(trial, drive)
        assert trial.store.asked > 0
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw

    def test_a_fault_of_ours_is_not_the_app_s(self, trial: SideBySide, way: Way) -> None:
        def fails(*args: Any) -> Any:
            raise LookupError(f"a fault of ours, at {len(args)} arguments")

        trial.production()
        trial.patch.setattr(self.adapter, "to_schema", fails)
        plain, ce_run = self.both(trial, trial.asking(QUESTIONS, way))
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        assert ce_run.installation is not None
        assert {fault.kind for fault in ce_run.installation.faults} == {"LookupError"}

    @pytest.mark.parametrize(
        ("mapping", "end"), [("to_answer", "failed"), ("map_model_usage", "committed")]
    )
    def test_an_answer_that_cannot_be_mapped_closes_its_turn(
        self, trial: SideBySide, way: Way, mapping: str, end: str
    ) -> None:
        """Of a stream whose pieces tell all, nothing is to be mapped."""

        def fails(native: object) -> Any:
            raise LookupError(f"a fault of ours, at a {type(native).__name__}")

        trial.production()
        trial.patch.setattr(self.adapter, mapping, fails)
        plain, ce_run = self.both(trial, trial.asking(QUESTIONS, way))
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        assert ce_run.installation is not None
        end = end if ce_run.installation.faults else "committed"
        assert {turn.status for turn in trial.turns()} == {end}

    @ways(*AWAITED)
    @pytest.mark.parametrize("moment", ["before the call", "after it", "after it failed"])
    def test_who_waits_for_the_store_does_not_hold_the_app_s_loop(
        self, trial: SideBySide, way: Way, moment: str
    ) -> None:
        """The store hangs until a task of the app's own loop lets it go on."""
        store = trial.store
        before = store.hangs = moment == "before the call"

        def answer(_: JsonObject) -> Answer:
            store.hangs = not before
            return error(500, "overloaded") if moment == "after it failed" else text(ANSWERS[0])

        late: list[object] = []  # the engine says so when it gives the store up
        logger = getLogger("ce_engine.store")  # of all engines, those of other tests too
        trial.patch.setattr(
            logger, "warning", lambda _, url, why: late.append(why) if url == store.url else None
        )

        async def let_go() -> None:
            while not (store.hangs and store.waiting):  # noqa: ASYNC110 - on another thread
                await asyncio.sleep(0.01)
            store.hangs = False

        async def ask(target: Any) -> None:
            task = asyncio.create_task(let_go())
            with suppress(*([Exception] if moment == "after it failed" else ())):
                await trial.aask(target, QUESTIONS[0], way)
            freed = task.done() and not late
            store.hangs = False
            task.cancel()
            assert freed, f"the app's loop stood still while we waited for the store {moment}"

        trial.drive(lambda target: trial.run(ask(target)), answer)
        degraded = [
            turn.report["degradations"] for turn in trial.turns() if "degradations" in turn.report
        ]
        assert degraded == []

    # Coming and going

    def test_installing_twice_is_one_installation(self, trial: SideBySide, way: Way) -> None:
        with Wire(list(self.talk()[0])) as wire:
            target = self.make_target(wire, self.talk()[1])
            with self.adapter.install_ce(target, engine=trial.engine) as first:
                ce_run = trial.installed(wire, target, trial.asking(QUESTIONS, way))
                assert ce_run.installation is not None
                assert ce_run.installation.hooks is first.hooks
        self.check_calls(trial, ce_run)

    def test_the_engine_of_an_installation_is_its_own_for_who_installs_again(
        self, trial: SideBySide
    ) -> None:
        """Whoever made it, whatever it was made of; another engine is refused."""
        with Wire(echo) as wire:
            target = self.make_target(wire)
            with (
                self.adapter.install_ce(target, store="memory://") as first,
                self.adapter.install_ce(target, engine=first.engine) as second,
            ):
                assert second.hooks is first.hooks
                with pytest.raises(ConfigError, match="another engine"):
                    self.adapter.install_ce(target, engine=trial.engine)

    def test_each_who_installs_takes_away_its_own(self, trial: SideBySide, way: Way) -> None:
        with Wire(echo) as wire:
            target = self.make_target(wire)
            first = self.adapter.install_ce(target, engine=trial.engine)
            with self.adapter.install_ce(target, engine=trial.engine):
                first.uninstall()
                first.uninstall()  # which counts once
                trial.ask(target, "the second is there", way)
                assert len(trial.prepared) == 1, "the first who went took it away from the second"
            trial.ask(target, "both are gone", way)
            assert len(trial.prepared) == 1, "both went, and it is there"

    def test_uninstalling_leaves_no_trace(self, trial: SideBySide, way: Way) -> None:
        with Wire(echo) as wire:
            target = self.make_target(wire)
            trial.ask(target, "warm up", way)  # what frameworks keep of their first call is theirs
            gc.collect()  # what other tests installed and dropped goes now, and not in the midst
            self.adapter.install_ce(self.make_target(wire), engine=trial.engine).uninstall()
            classes, own = list(self._definitions()), list(self._objects(target))
            installation = self.adapter.install_ce(target, engine=trial.engine)
            installation.uninstall()
            self._check_left(own)
            installation = self.adapter.install_ce(target, engine=trial.engine)
            trial.ask(target, "governed", way)
            installation.uninstall()
            installation.uninstall()
            self._check_left(classes)
            before, rows = len(trial.prepared), trial.document().session.messages
            trial.ask(target, "on its own", way)
        assert before == 1
        assert len(trial.prepared) == before
        assert trial.document().session.messages == rows

    def _definitions(self) -> Iterator[Held]:
        """What the framework's modules and classes define; modules may count and cache as they run."""
        for name, module in list(sys.modules.items()):
            if name.startswith(self.packages) and hasattr(module, "__dict__"):
                yield module, {k: v for k, v in vars(module).items() if callable(v)}
                for value in list(vars(module).values()):
                    if isinstance(value, type) and value.__module__.startswith(self.packages):
                        yield value, dict(vars(value))

    def _objects(self, target: Any) -> Iterator[Held]:
        """The attributes of what the target is made of, and the items of its lists."""
        for part in walk(target, self.packages):
            if isinstance(part, list) or (hasattr(part, "__dict__") and not isinstance(part, type)):
                yield part, _state(part)

    def _check_left(self, states: list[Held]) -> None:
        """What there was is there, and nothing of the adapter's own is."""
        own = ("ce_integrations", type(self.adapter).__module__.partition(".")[0])
        for part, before in states:
            now = _state(part)
            changed = [key for key, value in before.items() if now.get(key) is not value]
            # Python gives a class its annotations when somebody looks for them.
            added = [key for key in now if key not in before and key != "__annotations__"]
            assert changed == [], f"{part!r:.80} has another {changed}"
            if not isinstance(part, type | list):  # objects may count and cache as they run
                added = [key for key in added if type(now[key]).__module__.startswith(own)]
            assert added == [], f"{part!r:.80} has a new {added}"


Held = tuple[Any, dict[Any, Any]]
"""An object, and the attributes or items that it had."""


def _state(part: Any) -> dict[Any, Any]:
    return dict(enumerate(part)) if isinstance(part, list) else dict(vars(part))


def _people(words: str) -> list[str]:
    return [person for person in PEOPLE if person in words]
