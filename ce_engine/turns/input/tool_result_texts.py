"""What a preparation tells of a session's tool results, for those that go out in fewer tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

from ce_engine.config import RuntimeConfig
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.sources import CandidateSources
from ce_engine.prepare.tool_results.compact import ArchivedForms, ResultTexts
from ce_engine.prepare.tool_results.forms import Form, FormMaker, is_fetch
from ce_engine.runtime.bounded_dict import BoundedDict
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.document import ToolRequest
from ce_engine.schema.enums import Origin
from ce_engine.sessions.view import SessionView
from ce_engine.text.relevance.terms import terms


MAX_FORMS, FORM_BYTES = 20_000, 400
"""Forms of results that are remembered of a session, and what one costs beside its text."""


class _Known(BoundedDict[tuple[Any, ...], tuple[int, Any]]):
    """The forms that were made for a session, for one counter and language: those of `costs`."""

    def __init__(self, view: SessionView, costs: object) -> None:
        super().__init__(MAX_FORMS)
        # Held weakly: as a value of `_known` it would keep its own key alive.
        self._view, self.costs = ref(view), costs

    def __setitem__(self, key: tuple[Any, ...], value: tuple[int, Any]) -> None:
        form = getattr(value[1], "form", value[1])
        if (view := self._view()) is not None:
            view.bytes += FORM_BYTES + (2 * len(form.text) if isinstance(form, Form) else 0)
        super().__setitem__(key, value)


_forms_by_view: WeakKeyDictionary[SessionView, _Known] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Results:
    """The tool results of one call and of its session."""

    view: SessionView
    call: ModelCall

    def calls(self, item: MessageItem) -> Sequence[ToolRequest]:
        """The calls that a message asks for; of one that the host sends as it sends them."""
        if item.index is not None:
            return self.call.messages[item.index].message.tool_calls or ()
        assert item.n is not None
        return self.view.rows[item.n].message.tool_calls or ()

    def question(self, n: int) -> str:
        """The newest task on the path to a result, as it is stored."""
        log, rows = self.view.log, self.view.rows
        while n >= 0:
            if rows[n].origin == Origin.TASK:
                return rows[n].message.content
            n = log.parents[n]
        return ""

    def evidence(self, item: MessageItem) -> str:
        """The evidence that a result is stored as; `""` where its content is not kept."""
        row = self.view.rows[item.n] if item.n is not None else None
        if row is None or row.withheld or not row.message.content:
            return ""
        return self.view.by_message.get(item.message_id, "")

    def is_media(self, item: MessageItem) -> bool:
        return item.index is not None and _is_media(self.call.messages[item.index])


def results_of(
    view: SessionView,
    call: ModelCall,
    config: RuntimeConfig,
    sources: CandidateSources,
    archived_forms: ArchivedForms,
) -> ResultTexts | None:
    """What the stage asks of a call's tool results; `None` where they go out as the app sends them.

    Where they take their forms for the budget alone, nothing is left out of them.
    """
    if call.purpose != "chat":
        return None
    known_forms = _forms_by_view.get(view)
    # One counter's, as that of the costs of lines: another one counts anew.
    costs = sources.costs
    if known_forms is None or known_forms.costs is not costs:
        known_forms = _forms_by_view[view] = _Known(view, costs)
    reads = config.tool_results == "compact" and (archived_forms.fetches or fetches(call))
    results = _Results(view, call)
    former = FormMaker(config.locale, sources.count, terms, results.question, reads, known_forms)
    return ResultTexts(
        former,
        sources.text,
        results.calls,
        results.evidence,
        results.is_media,
        archived_forms.forms,
    )


def unstored(
    view: SessionView,
    call: ModelCall,
    items: Sequence[MessageItem],
    forms: Mapping[int | str, Form],
) -> Iterator[tuple[str, list[Any]]]:
    """The forms of results of which more is to be seen than is stored, by host index; see `GivenForm`."""
    for item in items:
        if item.is_tool_result and item.index is not None and item.n is not None:
            host, stored_text = call.messages[item.index], view.rows[item.n].message.content
            if stored_text != host.message.content or _is_media(host):
                form = forms.get(item.key)
                yield str(item.index), [form.kind, form.base, form.saved] if form else ["", None, 0]


def fetches(call: ModelCall) -> bool:
    """Whether the tools that go out with a call have the one that reads stored evidence."""
    functions = (tool.get("function", tool) for tool in call.tools)
    return any(
        is_fetch(function.get("name")) for function in functions if isinstance(function, Mapping)
    )


def _is_media(host: HostMessage) -> bool:
    return bool(host.media or host.attachments)
