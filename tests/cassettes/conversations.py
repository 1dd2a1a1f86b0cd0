"""What holds of the recorded conversations in every framework; its `test_cassettes.py` has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ce_engine import EvidenceType, ModelUsage
from tests.cassettes.talks import SMALL, App, Talk, hold
from tests.cassettes.tapes import NOWHERE, tape


Converse = Callable[[str], Talk]
LIVE = pytest.param("live", marks=[pytest.mark.live, pytest.mark.timeout(1200)])


def conversing(app_class: type[App], request: pytest.FixtureRequest) -> Converse:
    """Have one of the recorded conversations: as it was, "sync" or "async", or with the model that there is."""

    def live(name: str) -> Talk:
        return hold(app_class, name, request.config.getoption("--base-url"))

    def replayed(name: str) -> Talk:
        with tape(f"{app_class.framework}/{name}") as cassette:
            asynchronous = request.param == "async"
            talk = hold(app_class, name, f"{NOWHERE}/v1", asynchronous=asynchronous)
        assert cassette.all_played
        return talk

    return live if request.param == "live" else replayed


class Conversations:
    """The tests; the fixture `converse` is of the framework."""

    @pytest.mark.req("A-11", "A-14")
    def test_a_conversation_over_budget(self, converse: Converse) -> None:
        talk = converse("chat")
        _all_is_stored(talk)
        _left_out_in_the_end(talk)
        for usage, answered in _usages(talk):
            assert answered is not None
            told = answered["usage"]
            assert "estimated" not in usage.params
            assert usage.prompt_tokens == told["prompt_tokens"]
            assert usage.completion_tokens == told["completion_tokens"]
            assert 0 < usage.prompt_tokens <= SMALL.max_input_tokens - SMALL.reserved_reply_tokens

    @pytest.mark.req("A-14")
    def test_a_stream_over_budget(self, converse: Converse) -> None:
        talk = converse("stream")
        _all_is_stored(talk)
        _left_out_in_the_end(talk)
        for usage, answered in _usages(talk):
            assert answered is None
            assert usage.params["estimated"] is True
            assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
            assert usage.first_token_latency_ms is not None

    def test_a_conversation_in_chinese(self, converse: Converse) -> None:
        talk = converse("chinese")
        assert talk.questions == ("你好！请用一句话介绍北京。🙂",)
        _all_is_stored(talk)

    @pytest.mark.req("A-03")
    def test_a_tool_call_and_its_result(self, converse: Converse) -> None:
        talk = converse("tools")
        asked, name, arguments = _called(talk)
        result = f"{arguments['city']}: 晴, 21 degrees"
        assert _stored(talk) == [
            ("user", talk.questions[0]),
            ("assistant", ""),
            ("tool", result),
            ("assistant", talk.answers[0]),
        ]
        (shown,) = (each for each in talk.asked[1]["messages"] if each["role"] == "tool")
        assert (shown["content"], shown["tool_call_id"]) == (result, asked)
        (call,) = talk.document.session.tool_state.tool_calls
        assert (call.tool, call.args_digest) == (name, arguments)
        (evidence,) = (
            each
            for each in talk.document.evidences.values()
            if each.type is EvidenceType.TOOL_RESULT
        )
        assert evidence.links.tool_call_id == call.tool_call_id
        assert evidence.content == result


def _called(talk: Talk) -> tuple[str, str, Any]:
    """(id, name, arguments) of the one call in what the model answered first."""
    first, _ = talk.answered
    assert first is not None
    (call,) = first["choices"][0]["message"]["tool_calls"]
    return call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


def _stored(talk: Talk) -> list[tuple[str, str]]:
    return [(str(each.role), each.content) for each in talk.document.session.messages]


def _all_is_stored(talk: Talk) -> None:
    """All that was said is in the session, word for word, whatever was sent."""
    assert all(talk.answers)
    said = []
    for question, answer in zip(talk.questions, talk.answers, strict=True):
        said += [("user", question), ("assistant", answer)]
    assert _stored(talk) == said


def _left_out_in_the_end(talk: Talk) -> None:
    """As the reports tell, and as the model got it: never the rules of the app, never the question."""
    dropped = [report.get("dropped", 0) for report in talk.reports]
    assert dropped[0] == 0
    assert dropped[-1] > 0
    for asked, question in zip(talk.asked, talk.questions, strict=True):
        first, *_, last = asked["messages"]
        assert first["role"] == "system"
        assert last["content"].endswith(question)
    sent = [len(asked["messages"]) for asked in talk.asked]
    host_s = [2 + 2 * before for before in range(len(talk.questions))]
    assert sent[:2] == host_s[:2]
    assert sent[-1] < host_s[-1]


def _usages(talk: Talk) -> Iterator[tuple[ModelUsage, dict[str, Any] | None]]:
    """What is recorded of each call, and what the model told of it."""
    kept = talk.document.session.model_usage
    yield from zip(kept, talk.answered, strict=True)
