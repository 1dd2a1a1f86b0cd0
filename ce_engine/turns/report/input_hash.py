"""The hash of what goes out, as it is stored: a replay that makes the same input has the same (A-21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ce_engine.prepare.compose.render import Locale, short_result
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.sources import CandidateSources
from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten
from ce_engine.schema.json_text import canonical_json
from ce_engine.sessions.view import SessionView


RECIPE = "r1:"
"""How the hash of an input is made; another recipe gets another name."""


def digest_of(view: SessionView, n: int) -> str:
    """The digest of a stored message as it goes to a model; made once in its life."""
    digest = view.digests.get(n)
    if digest is None:
        message = view.rows[n].message
        calls = [[call.name, call.id, call.args] for call in message.tool_calls or ()]
        data = [str(message.role), message.content, calls, message.tool_call_id]
        digest = view.digests[n] = view.fingerprinter.mac("content", canonical_json(data)).hex()
    return digest


@dataclass(frozen=True, slots=True)
class InputHash:
    """Hashes one input.

    Attributes:
        view: the session as the call knew it.
        items: what was chosen from.
        outcome: what goes out.
        sources: the texts of the items.
        locale: of the texts that the engine writes.
    """

    view: SessionView
    items: Sequence[MessageItem]
    outcome: Outcome
    sources: CandidateSources
    locale: Locale

    def compute(self, system: Mapping[int, str]) -> str:
        """The hash; `system` has the MACs of host messages that are not stored, by index."""
        items = {item.index: item for item in self.items}
        view, digests, units = self.view, self.view.digests, list[str]()
        if self.outcome.unchanged:
            kept_items = [items[step.index] for step in self.outcome.plan if isinstance(step, Keep)]
            return self._hash(
                [
                    system.get(item.index or 0, "")
                    if item.n is None
                    else digests.get(item.n) or digest_of(view, item.n)
                    for item in kept_items
                ]
            )
        for step in self.outcome.plan:
            if type(step) is Keep:
                n = items[step.index].n
                digest = system.get(step.index, "") if n is None else digests.get(n)
                units.append(
                    digest_of(view, n) if digest is None and n is not None else digest or ""
                )
            elif isinstance(step, Insert):
                units.append(f"insert {step.text}")
            elif isinstance(step, Restore):
                units += self._restored(step, items)
            else:
                item = items[step.index]
                if item.n is None:
                    units.append(system.get(step.index, ""))
                else:
                    units.append(digests.get(item.n) or digest_of(view, item.n))
                if isinstance(step, Shorten):
                    units.append(self._short(item, step.text, items))
                elif isinstance(step, Extend):
                    units.append(f"extend {step.before} {step.text}")
        return self._hash(units)

    def _hash(self, units: Sequence[str]) -> str:
        return RECIPE + self.view.fingerprinter.mac("input", "\x00".join(units)).hex()

    def _restored(self, step: Restore, items: Mapping[int | None, MessageItem]) -> list[str]:
        name = step.message.message_id or ""
        n = self.view.log.by_message_id(name)
        units = [digest_of(self.view, n) if n is not None else ""]
        if (short := self.outcome.shorter.get(name)) is not None:
            units.append(f"short {short.text}")
        elif name in self.outcome.forms:
            units.append(self._form(name, items))
        return units + ([f"extend True {step.before}"] if step.before else [])

    def _short(self, item: MessageItem, text: str, items: Mapping[int | None, MessageItem]) -> str:
        """The short form of a text; of a tool result that of its stored text."""
        form = self.outcome.forms.get(item.key)
        if form is not None and form.text == text:
            return self._form(item.key, items)
        if item.n is not None and item.is_tool_result and item.key not in self.outcome.shorter:
            stored_text = self.view.rows[item.n].message.content
            if stored_text != self.sources.text(item):
                text = short_result(stored_text, self.sources.evidence_of(item), self.locale)
        return f"short {text}"

    def _form(self, name: int | str, items: Mapping[int | None, MessageItem]) -> str:
        """Stands for the form of a result: with what is stored of both it can be made again."""
        form = self.outcome.forms[name]
        base = items[form.base].message_id if isinstance(form.base, int) else form.base or ""
        return f"form {form.kind} {base}"
