"""Whoever comes and goes: never too many inside, one of a lane, and everybody has a turn (D-12)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine.errors import BackpressureError
from ce_engine.runtime.session_gate import Gate


Visit = tuple[str, str, int, int, bool]
"""Session, lane, ticks before it comes, ticks that it stays, and whether it is cancelled."""

VISITS = st.lists(
    st.tuples(
        st.sampled_from("st"),
        st.sampled_from("abcde"),
        st.integers(0, 5),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=25,
)


@pytest.mark.req("D-12")
@given(visits=VISITS, most=st.integers(1, 4))
def test_the_gate_holds(visits: list[Visit], most: int) -> None:
    inside: list[tuple[str, str]] = []
    served: list[int] = []

    async def visit(gate: Gate, n: int, session: str, lane: str, before: int, stay: int) -> None:
        for _ in range(before):
            await asyncio.sleep(0)
        with suppress(BackpressureError):
            async with gate.enter(session, lane, most, 60):
                inside.append((session, lane))
                assert len(set(inside)) == len(inside)
                assert sum(key == session for key, _ in inside) <= most
                for _ in range(stay):
                    await asyncio.sleep(0)
                inside.remove((session, lane))
                served.append(n)

    async def main() -> None:
        gate = Gate()
        tasks = [asyncio.create_task(visit(gate, n, *each[:4])) for n, each in enumerate(visits)]
        for _ in range(4):
            await asyncio.sleep(0)
        for task, each in zip(tasks, visits, strict=True):
            if each[4] and (each[0], each[1]) not in inside:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        faults = [t.exception() for t in tasks if not t.cancelled() and t.exception() is not None]
        assert faults == []
        assert len(served) == sum(not task.cancelled() for task in tasks)
        assert gate._rooms == {}

    asyncio.run(main())
