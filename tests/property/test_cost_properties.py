"""What calls cost, for random hosts: by a second counter, with us and without us, and that the sums add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ce_engine import (
    BudgetConfig,
    MessagePart,
    Report,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.audit.compare.costs import Costs, costs
from ce_engine.audit.compare.reading import calls_of
from ce_engine.schema.call import HostMessage
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from ce_engine.text.tokens.prices import RELATIVE
from tests.property.report_cases import Characters


PRIMING, FRAME, CALL = 3, 4, 8
JOIN = 16
"""What a place where texts are put in costs at most beside them."""

Body = list[tuple[str, str, int]]
"""Role, content and tokens of each message."""


@dataclass
class Seen:
    """Bodies as they went out and as the host's own lists were, with the report of each."""

    reports: list[Report] = field(default_factory=list)
    sent: list[Body] = field(default_factory=list)
    own: list[Body] = field(default_factory=list)


def counted(part: MessagePart) -> tuple[str, str, int]:
    tokens = len(part.content) + FRAME
    for call in part.tool_calls or ():
        tokens += len(f"{call.name}{{}}{call.id}") + CALL
    tokens += len(part.tool_call_id) + CALL if part.tool_call_id else 0
    return part.role.value, f"{part.content} {part.tool_calls} {part.tool_call_id}", tokens


def own_body(messages: Sequence[HostMessage]) -> Body:
    parts = (
        MessagePart(
            role=m.message.role,
            content=m.message.content,
            tool_calls=m.message.tool_calls,
            tool_call_id=m.message.tool_call_id,
        )
        for m in messages
    )
    return [counted(part) for part in parts]


def total(body: Body) -> int:
    return PRIMING + sum(tokens for *_, tokens in body)


def same(before: Body, now: Body) -> int:
    """Leading tokens of a body that are those of the one before."""
    tokens = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        tokens += new[2]
    return tokens


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask"] * 6 + ["tool"] * 3 + ["edit", "forget", "system"]),
        st.integers(5, 120),
        st.integers(0, 9),
    ),
    min_size=3,
    max_size=14,
)


def text(n: int, size: int) -> str:
    """A text that no other is, in two languages."""
    return (f"{n}: lamp {n * 7} 台灯{n} hall 仓库 " * 20)[: size + 6]


def play(
    steps: Sequence[tuple[str, int, int]], budget: int | None, *, share: bool
) -> tuple[Seen, Costs]:
    """A host that asks, runs tools, edits and forgets; with what its session costs as it is stored."""
    config = RuntimeConfig(enable_share_context=share, store=StoreConfig(deadline_s=30))
    if budget is not None:
        limits = BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0)
        config = config.model_copy(update={"budget": limits})
    engine = create_context_engine("memory://", token_estimator=Characters(), config=config)
    scope, seen = Scope(session_id="s", user_id="张伟"), Seen()
    app = HostApp(engine, scope, [system("You help. 你来帮忙。")])
    for n, (what, size, which) in enumerate(steps):
        if what == "edit" and len(app.messages) > 1:
            place = 1 + which % (len(app.messages) - 1)
            old = app.messages[place]
            if not old.message.tool_calls and not old.message.tool_call_id:
                message = old.message.model_copy(update={"content": text(1000 + n, size)})
                app.messages[place] = replace(old, message=message, recognised=None, counted=None)
        elif what == "forget":
            del app.messages[1 : 1 + which]
        elif what == "system":
            app.messages[0] = system(text(2000 + n, size))
        while len(app.messages) > 1 and app.messages[1].message.role.value in ("tool", "assistant"):
            del app.messages[1]  # no host's list begins with an answer
        if what == "tool":
            asked = tool_calls((f"call-{n}", "look", {}))
            _call(app, seen, user(text(n, size)), answer=asked)
            _call(app, seen, tool_result(f"call-{n}", text(3000 + n, size)), new_request=False)
        else:
            _call(app, seen, user(text(n, size)))
    engine.sync.flush()
    rows: list[TurnRow] = engine.loop.run(engine.store.list_turns(scope))
    document = engine.loop.run(engine.store.get_session(scope))
    assert isinstance(document, SessionDocument)
    found = costs(calls_of(document, rows), RELATIVE)
    engine.sync.close()
    return seen, found


def _call(
    app: HostApp,
    seen: Seen,
    *more: HostMessage,
    answer: HostMessage | None = None,
    new_request: bool = True,
) -> None:
    prepared = app.prepare(*more, new_request=new_request, restore=False)
    seen.reports.append(prepared.report)
    seen.own.append(own_body(app.messages))
    seen.sent.append([counted(part) for part in prepared.assembled.parts])
    app.commit(prepared, answer or assistant(f"answer {len(seen.own)} 答"))


@given(STEPS, st.integers(150, 2500))
@settings(max_examples=20)
def test_without_us_is_what_the_host_s_own_lists_cost(
    steps: list[tuple[str, int, int]], budget: int
) -> None:
    seen, _ = play(steps, budget, share=True)
    for n, report in enumerate(seen.reports):
        without = report.untouched
        assert without is not None
        assert without.tokens == total(seen.own[n]) == report.tokens_before
        before = same(seen.own[n - 1], seen.own[n]) if n else None
        assert without.prefix == before, n


@given(STEPS, st.integers(150, 2500))
@settings(max_examples=20)
def test_as_sent_is_what_a_second_counter_finds(
    steps: list[tuple[str, int, int]], budget: int
) -> None:
    seen, _ = play(steps, budget, share=False)  # nothing is put in, so that all counts are exact
    for n, report in enumerate(seen.reports):
        assert report.token_used == total(seen.sent[n])
        before = same(seen.sent[n - 1], seen.sent[n]) if n else None
        assert report.prefix_tokens_unchanged == before, n


@given(STEPS, st.integers(150, 2500))
@settings(max_examples=15)
def test_what_is_put_in_is_counted_as_well(steps: list[tuple[str, int, int]], budget: int) -> None:
    seen, _ = play(steps, budget, share=True)
    for n, report in enumerate(seen.reports):
        pins = sum(d.reason == "there_already" for d in report.prune_decisions)
        most = total(seen.sent[n]) + JOIN * (4 + pins)
        assert total(seen.sent[n]) <= report.token_used <= most
        if n:
            assert report.prefix_tokens_unchanged is not None
            assert report.prefix_tokens_unchanged >= same(seen.sent[n - 1], seen.sent[n])


@given(STEPS)
@settings(max_examples=15)
def test_with_room_to_spare_nothing_is_dearer(steps: list[tuple[str, int, int]]) -> None:
    seen, found = play(steps, 10**6, share=True)
    assert [each.sent for each in found.calls] == [each.untouched for each in found.calls]
    assert (found.compared, found.apart, found.own) == (found.untouched, 0, 0)
    assert not any("CONTEXT_DEARER" in report.warnings for report in seen.reports)


@given(STEPS, st.integers(150, 2500))
@settings(max_examples=15)
def test_the_sum_of_a_session_is_that_of_its_reports(
    steps: list[tuple[str, int, int]], budget: int
) -> None:
    seen, found = play(steps, budget, share=True)
    tenth = 0.9
    sent = [r.token_used - tenth * (r.prefix_tokens_unchanged or 0) for r in seen.reports]
    own = [
        total(b) - tenth * ((r.untouched and r.untouched.prefix) or 0)
        for b, r in zip(seen.own, seen.reports, strict=True)
    ]
    assert math.isclose(found.sent, math.fsum(sent))
    assert math.isclose(found.untouched, math.fsum(own))
    assert math.isclose(found.more, found.compared - found.untouched)
    lost = math.fsum(max(0.0, a - b) for a, b in zip(sent, own, strict=True))
    assert math.isclose(math.fsum(found.losses.values()), lost, abs_tol=1e-6)
