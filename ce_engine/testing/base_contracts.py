"""What every clock, id generator, hasher and event bus must do, as tests (A-04, A-20, A-27).

Subclass a suite and give it a fixture of the part's name.
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ce_engine.ports.events import EventBus
from ce_engine.ports.ids import Clock, Hasher, IdGenerator
from ce_engine.schema.events import Event, EventType


UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z")


class ClockContract:
    """Everything that `ports.Clock` promises. A subclass gives a fixture `clock`."""

    def test_time_is_utc_iso_8601_with_z(self, clock: Clock) -> None:
        assert UTC.fullmatch(clock.now_iso())

    def test_it_never_goes_back(self, clock: Clock) -> None:
        times = [clock.now_iso() for _ in range(100)]
        assert times == sorted(times)


class IdGeneratorContract:
    """Everything that `ports.IdGenerator` promises. A subclass gives a fixture `id_generator`."""

    def test_an_id_is_a_text_without_white_space(self, id_generator: IdGenerator) -> None:
        new_id = id_generator.generate()
        assert isinstance(new_id, str)
        assert re.fullmatch(r"\S{1,200}", new_id)

    def test_no_id_is_given_twice_on_any_thread(self, id_generator: IdGenerator) -> None:
        start = threading.Barrier(4)

        def some(_: int) -> list[str]:
            start.wait()
            return [id_generator.generate() for _ in range(500)]

        with ThreadPoolExecutor(4) as pool:
            ids = [name for names in pool.map(some, range(4)) for name in names]
        assert len(set(ids)) == len(ids) == 2000


class HasherContract:
    """Everything that `ports.Hasher` promises. A subclass gives a fixture `hasher`."""

    def test_a_digest_is_hex_and_the_same_again(self, hasher: Hasher) -> None:
        for text in ("", "a", "订单在哪里?", "x" * 100_000):
            assert re.fullmatch(r"[0-9a-f]{16,}", hasher.digest(text))
            assert hasher.digest(text) == hasher.digest(str(text))

    def test_other_texts_have_other_digests(self, hasher: Hasher) -> None:
        texts = ["", "a", "A", "a ", "订单", "訂單", *map(str, range(1000))]
        assert len({hasher.digest(text) for text in texts}) == len(texts)


def event(kind: EventType = EventType.RECORDED, **payload: object) -> Event:
    """An event of a session."""
    return Event(
        event_id="e", event_type=kind, session_id="s", ts="2026-01-01T00:00:00Z", payload=payload
    )


class EventBusContract:
    """Everything that `ports.EventBus` promises. A subclass gives a fixture `event_bus`."""

    pytestmark = pytest.mark.anyio

    async def test_handlers_hear_of_their_events_and_of_no_others(
        self, event_bus: EventBus
    ) -> None:
        heard: list[str] = []

        async def awaited(heard_event: Event) -> None:
            heard.append(f"async {heard_event.payload['n']}")

        event_bus.on(
            EventType.RECORDED,
            lambda heard_event: heard.append(f"plain {heard_event.payload['n']}"),
        )
        event_bus.on(EventType.RECORDED, awaited)
        event_bus.on(EventType.ERROR, lambda _: heard.append("another's"))
        event_bus.on_all(lambda heard_event: heard.append(f"all {heard_event.payload['n']}"))
        await event_bus.emit(event(n=1))
        await event_bus.emit(event(EventType.DEGRADED, n=2))
        assert sorted(heard) == ["all 1", "all 2", "async 1", "plain 1"]

    async def test_a_handler_that_is_off_hears_nothing(self, event_bus: EventBus) -> None:
        heard: list[Event] = []
        event_bus.on(EventType.RECORDED, heard.append)
        event_bus.off(EventType.RECORDED, heard.append)
        event_bus.off(EventType.RECORDED, print)  # it never was on
        await event_bus.emit(event(n=1))
        assert heard == []

    async def test_a_handler_that_fails_harms_neither_the_others_nor_the_engine(
        self, event_bus: EventBus
    ) -> None:
        heard: list[Event] = []

        def failing(_: Event) -> None:
            raise ValueError

        async def failing_too(_: Event) -> None:
            raise ValueError

        for handler in (failing, failing_too, heard.append):
            event_bus.on(EventType.RECORDED, handler)
        await event_bus.emit(event(n=1))
        assert len(heard) == 1
