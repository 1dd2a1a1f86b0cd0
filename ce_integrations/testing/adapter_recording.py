"""Contract: each model call is prepared once and recorded once, and the rows are what was said and done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ce_engine import ModelUsage, SessionDocument, ToolCallStatus, check_invariants
from ce_integrations.install.adapter import CallInfo, Hooks, Way
from ce_integrations.testing.adapter_messages import Messages
from ce_integrations.testing.answers import JsonObject, simple_count, text, tool_calls
from ce_integrations.testing.contract_case import ANSWERS, QUESTIONS, lookup
from ce_integrations.testing.forgeries import text_of
from ce_integrations.testing.framework_apps import MODEL, needs
from ce_integrations.testing.side_by_side import AppRun, SideBySide


Row = dict[str, Any]

WORDS = (("lane", "turn"), ("cut",))
"""What is looked up, question by question."""


class Recording(Messages):
    """What is in the store afterwards."""

    def test_each_model_call_is_prepared_and_recorded_once(
        self, trial: SideBySide, way: Way
    ) -> None:
        _, ce_run = self.both(trial, trial.asking(QUESTIONS, way))
        self.check_calls(trial, ce_run)
        assert len({turn.request_id for turn in trial.turns()}) == len(QUESTIONS)

    @needs("teams")
    def test_each_call_of_a_team_is_prepared_and_recorded_once(
        self, trial: SideBySide, way: Way
    ) -> None:
        _, ce_run = self.team(trial, way)
        self.check_calls(trial, ce_run)
        texts = [m.content for m in trial.document().session.messages if m.role == "assistant"]
        spoken = [words for words in texts if words]
        assert len(spoken) == len(set(spoken)), "an answer is recorded twice"
        assert len({turn.lane for turn in trial.turns()}) > 1, "agents share a line"

    @needs("tools")
    def test_a_preview_is_what_goes_out_and_leaves_no_trace(
        self, trial: SideBySide, way: Way
    ) -> None:
        """Of each call of a conversation that outgrows its budget, asked for right before it."""
        looked: list[tuple[list[Any], list[Any]]] = []
        before, abefore = Hooks.before_model, Hooks.abefore_model

        def before_model(hooks: Any, natives: Any, info: CallInfo) -> Any:
            preview = hooks.preview(natives, replace(info))
            prepared = before(hooks, natives, info)
            looked.append((preview, prepared[0]))
            return prepared

        async def abefore_model(hooks: Any, natives: Any, info: CallInfo) -> Any:
            preview = await hooks.apreview(natives, replace(info))
            prepared = await abefore(hooks, natives, info)
            looked.append((preview, prepared[0]))
            return prepared

        trial.patch.setattr(Hooks, "before_model", before_model)
        trial.patch.setattr(Hooks, "abefore_model", abefore_model)
        plain, ce_run = self.reading(trial, way, 900)
        assert ce_run.result == plain.result
        self.check_calls(trial, ce_run)
        assert len(looked) == len(ce_run.raw)
        for preview, outgoing in looked:
            assert list(map(self.adapter.map_message, self._parts(preview))) == list(
                map(self.adapter.map_message, self._parts(outgoing))
            )

    def check_calls(self, trial: SideBySide, run: AppRun) -> None:
        """As many preparations, turns and usages as requests."""
        turns = trial.turns()
        assert len(run.inputs) == len(run.raw) == len(turns)
        expected = ("committed", 1, self.adapter.name)
        assert {(turn.status, turn.attempt, turn.framework) for turn in turns} == {expected}
        assert len(trial.document().session.model_usage) == len(turns)
        kinds: set[str] = set()
        for turn in turns:
            kinds |= set(payload := turn.report["payload_tokens"])
            assert sum(payload.values()) == turn.report["token_used"]
        expected_kinds = {"priming"}
        for body in run.bodies:
            expected_kinds |= {"tools"} if body.get("tools") else set()
            roles = {message["role"] for message in body["messages"]}
            expected_kinds |= {"tool_results"} if "tool" in roles else set()
        assert expected_kinds <= kinds
        call_facts = [(info.model, len(info.tools)) for info in trial.told]
        assert call_facts == [(body["model"], len(body.get("tools") or ())) for body in run.bodies]

    def test_usage_is_the_provider_s_or_marked_as_estimated(
        self, trial: SideBySide, way: Way
    ) -> None:
        _, ce_run = self.both(trial, trial.asking(QUESTIONS, way))
        rows = trial.document().session.model_usage
        for row, body in zip(rows, ce_run.bodies, strict=True):
            is_told = self.adapter.capabilities.usage and _tells_usage(body)
            assert bool(row.params.get("estimated")) is not is_told
            assert row.prompt_tokens == simple_count(body) or not is_told
            assert row.prompt_tokens > 0
            assert row.completion_tokens > 0
            assert row.total_tokens == row.prompt_tokens + row.completion_tokens
            assert row.model == MODEL

    def test_the_answer_is_recorded_whole(self, trial: SideBySide, way: Way) -> None:
        _, ce_run = self.both(trial, trial.asking(QUESTIONS, way))
        assert ce_run.result == list(ANSWERS)
        answers = [m for m in trial.document().session.messages if m.role == "assistant"]
        assert [m.content for m in answers if m.content] == list(ANSWERS)
        assert {m.status for m in answers} == {None}

    def test_the_rows_are_these_and_no_more(self, trial: SideBySide, way: Way) -> None:
        self.both(trial, trial.asking(QUESTIONS, way))
        document, tools = trial.document(), self.adapter.capabilities.tools
        words_by_question = WORDS if tools else ((),) * len(QUESTIONS)
        session, evidence = document.session, dict(document.evidences)
        assert check_invariants(document) == []
        assert [*_messages(document)] == [*_expected_messages(words_by_question)]
        looked = {word: lookup(word) for words in words_by_question for word in words}
        calls = {call.args_digest["word"]: call for call in session.tool_state.tool_calls}
        assert len(calls) == len(session.tool_state.tool_calls)
        for word, result in looked.items():
            call = calls.pop(word)
            (result_id,) = call.result_evidence_ids
            assert _row(call) == {**_TOOL_RUN, "args_digest": {"word": word}}
            result_row = evidence.pop(result_id)
            assert result_row.links is not None
            assert _row(result_row) == {**_TOOL_RESULT, "content": result}
            assert result_row.links.tool_call_id == call.tool_call_id
        assert calls == {}
        usages = {usage.model_usage_id: usage for usage in session.model_usage}
        stages = ["tool_call", "answer"] if tools else ["answer"]
        assert [usage.stage for usage in usages.values()] == stages * len(QUESTIONS)
        assert [_row(usage) for usage in usages.values()] == [_USAGE] * len(usages)
        for output, answer in zip(evidence.values(), ANSWERS, strict=True):
            assert _row(output) == {**_OUTPUT, "content": answer}
            assert output.links is not None
            assert usages[output.links.model_usage_id or ""].stage == "answer"
        assert document.context_blocks == []
        assert session.task_state.todo_list.tasks == []

    @needs("tools")
    def test_an_object_that_a_tool_gives_is_evidence_as_the_model_is_told(
        self, trial: SideBySide, way: Way
    ) -> None:
        """One piece of it, in the framework's own words: it alone knows how it makes a text of an object."""
        script = [tool_calls([("found", {"word": "lane"})]), text("Two lines. 两条线")]
        plain = trial.plain(trial.asking(QUESTIONS[:1], way), script, (found,))
        ce_run = trial.drive(trial.asking(QUESTIONS[:1], way), script, (found,))
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        (tool_text,) = (m["content"] for m in ce_run.bodies[1]["messages"] if m["role"] == "tool")
        document = trial.document()
        (run,) = document.session.tool_state.tool_calls
        assert (run.tool, run.status) == ("found", ToolCallStatus.SUCCESS)
        results = [e for e in document.evidences.values() if e.type == "tool_result"]
        assert [result.content for result in results] == [text_of({"content": tool_text})]
        assert run.result_evidence_ids == [result.evidence_id for result in results]


class Line:
    """What a tool found: an object that tells its JSON, and its words."""

    def __init__(self, words: str) -> None:
        self.said = words

    def to_dict(self) -> dict[str, str]:
        return {"said": self.said}

    def __repr__(self) -> str:
        return f"<{self.said}>"


def found(word: str) -> Any:
    """Find the lines of a word."""
    return {"found": [Line(f"{word} 一条线"), Line("another")]}


_NOWHERE = {"name": "", "uri": ""}
_TOOL_RUN = {
    "tool": "lookup",
    "provider": {"kind": "builtin", **_NOWHERE},
    "type": "function_call",
    "status": "success",
}
_TOOL_RESULT = {
    "type": "tool_result",
    "source": {"kind": "tool", "name": "lookup", "uri": ""},
    "confidence": 0.9,
}
_OUTPUT = {
    "type": "llm_output",
    "source": {"kind": "llm", "name": MODEL, "uri": ""},
    "confidence": 0.5,
}
_USAGE = {"model": MODEL, "status": "success", "error": ""}
_ELSEWHERE = {
    *("at", "called_at", "duration_ms", "latency_ms", "metadata"),
    *("message_id", "evidence_id", "tool_call_id", "model_usage_id", "result_evidence_ids"),
    *("links", "author", "provider_id", "stage"),
    *("prompt_tokens", "completion_tokens", "total_tokens", "first_token_latency_ms"),
}
"""Times, ids, and what other lines and other tests look at."""


def _row(row: Any) -> Row:
    """What is left of a row; providers and estimates of usage are the framework's to know."""
    dumped = row.model_dump(mode="json", exclude_none=True, exclude=_ELSEWHERE)
    if isinstance(row, ModelUsage):
        dumped.pop("provider")
        assert dumped.pop("params") in ({}, {"estimated": True}, {"cached_tokens": 0})
    return dict(dumped)


def _tells_usage(body: JsonObject) -> bool:
    """Whether the provider told the usage: to a stream only where it was asked."""
    return not body.get("stream") or bool((body.get("stream_options") or {}).get("include_usage"))


def _messages(document: SessionDocument) -> Iterator[Row]:
    """Messages without times; ids by their place, results by the call that they answer."""
    places = {m.message_id: n for n, m in enumerate(document.session.messages)}
    args_by_call_id: dict[str | None, Any] = {}
    contents = {e.evidence_id: e.content for e in document.evidences.values()}
    for message in document.session.messages:
        row = _row(message)
        calls = message.tool_calls or ()
        args_by_call_id.update({call.id: call.args for call in calls})
        row["parent_id"] = places.get(message.parent_id)
        row["tool_calls"] = [(call.name, call.args) for call in calls]
        row["tool_call_id"] = args_by_call_id.get(message.tool_call_id)
        row["refs"] = sorted(contents[ref.evidence_id] for ref in message.refs or ())
        yield row


def _expected_messages(words_by_question: Sequence[Sequence[str]]) -> Iterator[Row]:
    """The conversation, a message a row: results hang on the call, and so does the answer after them."""
    tip, n = None, 0
    for question, words, answer in zip(QUESTIONS, words_by_question, ANSWERS, strict=True):
        results = [lookup(word) for word in words]
        yield _expected_row("user", question, n, tip)
        above = n
        if words:
            calls = [("lookup", {"word": word}) for word in words]
            above = n + 1
            yield _expected_row("assistant", "", above, n, tool_calls=calls)
        for place, (word, result) in enumerate(zip(words, results, strict=True), above + 1):
            args = {"word": word}
            yield _expected_row("tool", result, place, above, tool_call_id=args, refs=[result])
        tip = above + len(words) + 1
        yield _expected_row("assistant", answer, tip, above, refs=sorted(results))
        n = tip + 1


def _expected_row(role: str, content: str, place: int, parent: int | None, **others: Any) -> Row:
    empty: Row = {"tool_calls": [], "tool_call_id": None, "refs": []}
    row = {"role": role, "content": content, "seq": place + 1, "parent_id": parent}
    return {**empty, **row, **others}
