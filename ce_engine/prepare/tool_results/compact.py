"""Tool results in fewer tokens, settled when they arrive: a result that went out stays as it went out.

What becomes of a result follows from its own text, its call, and the results above it in the same input,
and from nothing else: another call, another process and a replay settle it alike. Where a cut takes away
what a result refers to, the result is settled anew; a prefix ends at a cut anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.sources import CandidateSources
from ce_engine.prepare.tool_results.forms import (
    CHANGED,
    COMPACT,
    DEEPEST,
    SELECTED,
    SHORT_CHARS,
    Form,
    FormMaker,
    Result,
    ResultFacts,
)
from ce_engine.schema.call import Keep, Restore, Shorten, Step
from ce_engine.schema.document import ToolRequest
from ce_engine.schema.enums import Origin
from ce_engine.schema.report import PruneDecision


PASSES = 4
"""How often results are settled anew because a cut takes away what they refer to; then they go out whole."""

Key = int | str
Forms = dict[Key, Form]
ArchivedForm = tuple[str, int | None, int]
"""The kind of a result's form, the host index that it refers to, the tokens that it saved."""


@dataclass(frozen=True, slots=True)
class ArchivedForms:
    """What a replay knows of results: forms by host index, where the text that they are of is not stored.

    `fetches` says that the agent could read stored evidence.
    """

    forms: Mapping[int, ArchivedForm] = field(default_factory=dict)
    fetches: bool = False


NO_FORMS = ArchivedForms()


class Assemble(Protocol):
    """The stages that make an outcome of a line."""

    def __call__(self, items: Sequence[MessageItem], *, sources: CandidateSources) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class ResultTexts:
    """What is asked of results while they are settled.

    Attributes:
        former: makes their forms.
        text: of a result.
        calls: the calls that a message asks for, in their order.
        evidence: that a result can be fetched by; `""` if none.
        is_media: whether a result has more than text.
        forms: by host index, where the text that a result was settled by is not stored.
    """

    former: FormMaker
    text: Callable[[MessageItem], str]
    calls: Callable[[MessageItem], Sequence[ToolRequest]]
    evidence: Callable[[MessageItem], str]
    is_media: Callable[[MessageItem], bool]
    forms: Mapping[int, ArchivedForm] = field(default_factory=dict)


def assemble_compact(
    items: list[MessageItem],
    sources: CandidateSources,
    results: ResultTexts | None,
    assemble: Assemble,
) -> tuple[list[MessageItem], Outcome]:
    """The items as they are assembled, with `results` in their forms, and what comes of it.

    No result refers to what does not stand above it as it is, or as what it changed.
    """
    shown_keys: Collection[Key] | None = None
    for _ in range(PASSES):
        if results is None:
            break
        forms, alone = settled(items, results, shown_keys)
        sources = replace(sources, alone=alone)
        formed = [_in_form(item, forms) for item in items] if forms else items
        outcome = assemble(formed, sources=_in_forms(sources, forms) if forms else sources)
        if not forms:
            return items, outcome
        whole, dropped_keys = _whole(outcome), _find_dropped(outcome)
        if all(_holds(key, form, whole) for key, form in forms.items() if key not in dropped_keys):
            return formed, _apply_forms(outcome, forms, formed)
        shown_keys = whole
    return items, assemble(items, sources=sources)


def is_cut_with_results(outcome: Outcome, items: Sequence[MessageItem]) -> bool:
    """Whether a line with tool results is cut, though its messages alone have room: rules, say, take it.

    Its results take their forms with that cut. With a later call, they would change after they went out.
    """
    cut = outcome.cut
    return (cut.moved or cut.stands) and any(item.is_tool_result for item in items)


def settled(
    items: Sequence[MessageItem], results: ResultTexts, shown_keys: Collection[Key] | None = None
) -> tuple[Forms, dict[Key, int]]:
    """The form of every result that has one, and what results would take by themselves.

    Args:
        items: the line.
        results: answers what is asked of them.
        shown_keys: the results that go out whole, or as a form of it; the others are left as they are, and
            nothing refers to them. `None` is all.
    """
    state = _Settling(results)
    for item, call in _with_calls(items, results):
        is_open = shown_keys is None or item.key in shown_keys
        state.take(item, call, is_open=is_open)
    return state.forms, state.alone


class _Settling:
    """The results so far, as those below them may refer to them."""

    def __init__(self, results: ResultTexts) -> None:
        self.results = results
        self.forms: Forms = {}
        self.alone: dict[Key, int] = {}
        self._equal: dict[str, Result] = {}
        self._newest: dict[str, Key] = {}
        self._things: dict[tuple[str, str], tuple[Result, ResultFacts]] = {}
        self._depth: dict[Key, int] = {}
        self._at: dict[int, Result] = {}

    def take(self, item: MessageItem, call: ToolRequest, *, is_open: bool) -> None:
        """Settle the next result."""
        assert item.n is not None
        text = self.results.text(item)
        result = Result(item.key, item.n, text, call, self.results.evidence(item))
        is_plain = not (item.error or item.more_call_ids or self.results.is_media(item))
        archived_form = self.results.forms.get(item.index) if item.index is not None else None
        if is_plain and result.is_plain:
            self.alone[item.key] = max(1, item.tokens - self._saved_alone(result, archived_form))
        if is_open and is_plain and result.is_plain:
            form = (
                self._form(result) if archived_form is None else self._again(result, *archived_form)
            )
            if form is not None:
                self.forms[item.key] = form
            if form is None or form.kind != SELECTED:
                self._note(result, form)
        self._newest[result.label] = item.key

    def _saved_alone(self, result: Result, archived_form: ArchivedForm | None) -> int:
        """Tokens that a result saves in the form that refers to nothing above."""
        if archived_form is not None and archived_form[0] in (COMPACT, SELECTED):
            return archived_form[2]
        form = self.results.former.facts(result).form
        return 0 if form is None else form.saved

    def _form(self, result: Result) -> Form | None:
        former, text = self.results.former, result.text
        equal = self._equal.get(text)
        if len(text) > SHORT_CHARS and equal is not None and self._is_newest(equal):
            form = former.repeated(result, equal, self._depth[equal.key])
            if form is not None:
                return form
        facts = former.facts(result)
        for base in self._same_thing(facts):
            depth = self._depth[base.key] + 1
            if self._is_newest(base) and depth <= DEEPEST:
                form = former.changed(result, base, depth)
                if form is not None:
                    return form
        return facts.form

    def _again(self, result: Result, kind: str, base: int | None, saved: int) -> Form | None:
        """The form that a result had by a text that is not stored."""
        if not kind:
            return None
        former, above = self.results.former, self._at.get(-1 if base is None else base)
        form = None
        if above is not None:
            make = former.changed if kind == CHANGED else former.repeated
            form = make(result, above, 0)
        elif kind == COMPACT or base is None:
            form = former.facts(result).form
        text = result.text if form is None else form.text
        return Form(kind, text, saved, above.key if above else None)

    def _same_thing(self, facts: ResultFacts) -> Iterator[Result]:
        """The newest result of each thing that this one may tell of, the newest first."""
        pairs = {
            pair[0].key: pair for identity in facts.ids if (pair := self._things.get(identity))
        }
        for pair in sorted(pairs.values(), key=lambda pair: -pair[0].n):
            if facts.is_of(pair[1]):
                yield pair[0]

    def _is_newest(self, base: Result) -> bool:
        """Whether the words by which a reference names it mean it, and no later one."""
        return self._newest.get(base.label) == base.key

    def _note(self, result: Result, form: Form | None) -> None:
        facts = self.results.former.facts(result)
        self._depth[result.key] = form.depth if form else 0
        self._equal[result.text] = result
        if facts.names:
            self._things |= dict.fromkeys(facts.ids, (result, facts))
        if isinstance(result.key, int):
            self._at[result.key] = result


def _with_calls(
    items: Sequence[MessageItem], results: ResultTexts
) -> Iterator[tuple[MessageItem, ToolRequest]]:
    """The results of the line, each with the call that it answers."""
    calls_by_id: dict[str, ToolRequest] = {}
    for item in items:
        if item.calls:
            calls_by_id = dict(zip(item.calls, results.calls(item), strict=False))
        if item.is_tool_result and item.n is not None and (item.call_id or "") in calls_by_id:
            yield item, calls_by_id[item.call_id or ""]


def saved_by_kind(outcome: Outcome) -> dict[str, int]:
    """Tokens that the forms of the results that go out save, by kind."""
    tokens_by_kind, dropped_keys = dict[str, int](), _find_dropped(outcome)
    for key, form in outcome.forms.items():
        if key not in dropped_keys:
            tokens_by_kind[form.kind] = tokens_by_kind.get(form.kind, 0) + form.saved
    return tokens_by_kind


def _in_form(item: MessageItem, forms: Forms) -> MessageItem:
    form = forms.get(item.key)
    return item if form is None else replace(item, tokens=max(1, item.tokens - form.saved))


def _in_forms(sources: CandidateSources, forms: Forms) -> CandidateSources:
    own = sources.text

    def text(item: MessageItem) -> str:
        form = forms.get(item.key)
        return own(item) if form is None else form.text

    return replace(sources, text=text)


def _whole(outcome: Outcome) -> frozenset[Key]:
    """The results that go out with nothing left out of them."""
    cut = outcome.cut
    return frozenset(
        item.key
        for position, group in enumerate(outcome.line.groups)
        if position not in cut.dropped and position not in cut.shortened
        for item in group.items
        if item.is_tool_result and item.key not in outcome.shorter
    )


def _find_dropped(outcome: Outcome) -> frozenset[Key]:
    groups = outcome.line.groups
    items = [item for position in outcome.cut.dropped for item in groups[position].items]
    return frozenset(item.key for item in [*items, *outcome.line.orphans])


def _holds(key: Key, form: Form, whole: Collection[Key]) -> bool:
    """Whether a form goes out, and below what it refers to."""
    return key in whole and (form.base is None or form.base in whole)


def _apply_forms(outcome: Outcome, forms: Forms, items: Sequence[MessageItem]) -> Outcome:
    """The outcome with the forms in its plan, and what they save told."""
    dropped_keys = _find_dropped(outcome)
    outcome.forms = forms
    outcome.plan = [_formed(step, forms) for step in outcome.plan]
    went = {item.key: item for item in items if item.key in forms and item.key not in dropped_keys}
    outcome.unchanged = outcome.unchanged and not went
    outcome.shortened += len(went)
    outcome.before += sum(
        forms[i.key].saved for i in items if i.index is not None and i.key in forms
    )
    newest = max(
        (n for n, item in enumerate(items) if item.origin is Origin.TASK or item.calls), default=0
    )
    outcome.decisions += [
        PruneDecision(
            block_id=item.message_id,
            action="degraded",
            reason=forms[item.key].kind,
            token_estimate=item.tokens,
        )
        for item in items[newest:]
        if item.key in went
    ]
    return outcome


def _formed(step: Step, forms: Forms) -> Step:
    if isinstance(step, Keep):
        form = forms.get(step.index)
        return step if form is None else Shorten(step.index, form.text)
    if isinstance(step, Restore) and (form := forms.get(step.message.message_id or "")) is not None:
        message = step.message.model_copy(update={"content": f"{step.before}{form.text}"})
        return Restore(message, step.before)
    return step
