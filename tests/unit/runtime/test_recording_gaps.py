"""What could not be recorded is counted by session, and takes no memory without bound."""

from __future__ import annotations

import pytest

from ce_engine.runtime.recording_gaps import Gaps
from ce_engine.schema.scope import Scope


def scopes(count: int) -> list[Scope]:
    return [Scope(session_id=f"s{n}") for n in range(count)]


@pytest.mark.req("A-07")
@pytest.mark.parametrize("refusal", ["", "CONTEXT_VERSION_CONFLICT"])
def test_gaps_of_many_sessions_stay_within_their_bound(
    refusal: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Gaps, "MOST", 3)
    gaps = Gaps()
    many = scopes(5)
    for scope in many:
        gaps.add(scope, [], refusal)
    named = [gap.scope for scope in many for gap in gaps.pop(scope)]
    assert named == many[2:]
    assert caplog.text.count("of more than 3 sessions are lost") == 1


def test_a_gap_that_was_refused_is_named_with_its_own_session_alone() -> None:
    gaps = Gaps()
    full, refused = scopes(2)
    gaps.add(refused, [])
    gaps.add(refused, [], "CONTEXT_VERSION_CONFLICT")
    gaps.add(full, [])
    assert [(gap.scope, gap.groups) for gap in gaps.pop(full)] == [(full, 1)]
    assert gaps.refusal(refused) == "CONTEXT_VERSION_CONFLICT"
    assert [(gap.scope, gap.groups) for gap in gaps.pop(refused)] == [(refused, 2)]
    assert gaps.pop(refused) == []


def test_a_refusal_that_lost_nothing_is_named_and_is_none() -> None:
    gaps = Gaps()
    [scope] = scopes(1)
    gaps.note(scope, "CONTEXT_VERSION_CONFLICT")
    assert gaps.refusal(scope) == ""
    assert [gap.groups for gap in gaps.pop(scope)] == [0]
