"""What goes out, part by part and layer by layer, for those who look at it (A-21, D-08)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from ce_engine.prepare.blocks.material import CONTEXTS
from ce_engine.prepare.choose.anchored_context import Pin
from ce_engine.prepare.choose.standing_context import FACTS
from ce_engine.prepare.compose.compose import SYSTEM
from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.prepare.compose.shorter_texts import saved_in
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.schema.call import Extend, Insert, ModelCall, Prepared, Restore, Shorten
from ce_engine.schema.enums import Layer, Origin, Role
from ce_engine.schema.replay import InspectedLayer, Inspection, Sent, SentPart
from ce_engine.sessions.view import SessionView
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.report.archive import Selection


_WITHOUT_PIECES = {"compression__context": "summary"}
"""What a context is from that is made of no pieces; else of the session's own records."""


class ShownText:
    """The parts of one input."""

    def __init__(
        self, view: SessionView, call: ModelCall, selection: Selection, counter: Counter
    ) -> None:
        self.view = view
        self.call = call
        self.chosen = selection
        self.counter = counter
        self.out = selection.outcome

    def build(self) -> Sent:
        """The parts in order, and what is left out."""
        left_out_ids = {id(item) for item in self._dropped_items()}
        return Sent(
            tokens=self.out.used,
            budget=self.chosen.limit.tokens,
            put_in=self.out.injected_tokens,
            extras=sum(self.chosen.extras.values()),
            parts=list(self._parts()),
            dropped=self.left(item for item in self.chosen.items if id(item) in left_out_ids),
        )

    def left(self, items: Iterable[MessageItem]) -> list[SentPart]:
        """Messages that do not go out, as parts."""
        parts = ((self._part("dropped", item), self.out.alone_of(item)) for item in items)
        return [part.model_copy(update={"tokens": tokens}) for part, tokens in parts]

    def layers(self, prepared: Prepared) -> Inspection:
        """The parts by layer, what is put in by its sections."""
        report = prepared.report
        inspected_layers = {
            layer: InspectedLayer(tokens=figures.tokens, truncated=figures.truncated)
            for layer, figures in report.layers.items()
        }
        contexts = ((n, text, self._context_sources(n)) for n, text in self.out.contexts.items())
        pins = ((FACTS, pin.text, _pin_sources(pin)) for pin in self.out.pins.values())
        for name, text, sources in (*contexts, *pins):
            tokens = self.counter.text(text)
            role = Role.SYSTEM if name in SYSTEM else Role.USER
            part = SentPart(
                action="injected", role=role, tokens=tokens, content=text, sources=sources
            )
            inspected_layers[CONTEXTS[name].value].parts.append(part)
        for part in self._parts(alone=True):
            layer = Layer.RULES if self._is_system(part) else Layer.IMMEDIATE
            inspected_layers[layer.value].parts.append(part)
        return Inspection(
            layers=inspected_layers,
            tokens=report.token_used,
            budget=report.token_budget,
            report=report,
        )

    def _context_sources(self, context: str) -> list[str]:
        """Where the pieces of a context are from."""
        dropped_ids = {
            decision.block_id for decision in self.out.decisions if decision.action == "dropped"
        }
        pieces = (
            m for m in self.chosen.materials if m.context == context and m.id not in dropped_ids
        )
        return sorted(
            {piece.source for piece in pieces} or {_WITHOUT_PIECES.get(context, "session")}
        )

    def _is_system(self, part: SentPart) -> bool:
        return part.index is not None and self.call.messages[part.index].origin is Origin.SYSTEM

    def _dropped_items(self) -> Iterator[MessageItem]:
        line, dropped = self.out.line, self.out.cut.dropped
        yield from line.orphans
        for position in dropped:
            yield from line.groups[position].items

    def _parts(self, *, alone: bool = False) -> Iterator[SentPart]:
        """The parts in order; `alone` without the text that is put in."""
        items = {item.index: item for item in self.chosen.items if item.index is not None}
        items_by_id = {item.message_id: item for item in self.chosen.items if item.index is None}
        injected = self.out.injected_tokens
        for step in self.out.plan:
            if isinstance(step, Insert):
                if not alone:
                    yield SentPart(
                        action="injected", role=step.role, tokens=injected, content=step.text
                    )
            elif isinstance(step, Restore):
                item = items_by_id[step.message.message_id or ""]
                part = self._part("restored", item, step.message.content)
                tokens = part.tokens - saved_in([item], self.out.shorter)
                tokens += self.counter.text(step.before) + FRAMING if step.before else 0
                yield part.model_copy(update={"tokens": tokens})
            elif isinstance(step, Shorten):
                part = self._part("shortened", items[step.index], step.text)
                yield part.model_copy(update={"tokens": self._short(items[step.index], step.text)})
            else:
                item = items[step.index]
                content = self.call.messages[step.index].message.content
                if alone or not isinstance(step, Extend):
                    yield self._part("kept", item, content)
                    continue
                text = step.text + content if step.before else content + step.text
                part = self._part("extended", item, text)
                tokens = item.tokens + self.counter.text(step.text) + FRAMING
                yield part.model_copy(update={"tokens": tokens})

    def _short(self, item: MessageItem, text: str) -> int:
        """Tokens of a message with a shorter text, the words around it included."""
        if item.key in self.out.forms:
            return item.tokens
        whole = self.call.messages[item.index or 0].message.content
        return item.tokens + self.counter.text(text) - self.counter.text(whole)

    def _part(self, action: str, item: MessageItem, content: str = "") -> SentPart:
        if item.index is not None:
            role = self.call.messages[item.index].message.role
        else:
            role = self.chosen.sources.message_of(item).role
        form = self.out.forms.get(item.key)
        return SentPart(
            action=action,
            role=role,
            tokens=item.tokens,
            content=content,
            index=item.index,
            message_id=self.view.log[item.n].message_id if item.n is not None else None,
            sources=["session" if item.index is None else "host"],
            form=form.kind if form and action != "dropped" else None,
        )


def _pin_sources(pin: Pin) -> list[str]:
    """Where the records in a pin are from: evidence, or earlier messages."""
    return sorted({"evidence" if name.startswith("e:") else "session" for name, _ in pin.refs})


def difference(sent: Sent, instead: Sent) -> list[str]:
    """A unified diff of two inputs, message by message."""
    return list(
        difflib.unified_diff(
            _lines(sent), _lines(instead), "as it was", "instead", lineterm="", n=1
        )
    )


def _lines(sent: Sent) -> list[str]:
    lines: list[str] = []
    for part in sent.parts:
        label = f" {part.message_id}" if part.message_id else ""
        lines += [f"[{part.role.value}{label}]", *part.content.splitlines()]
    return lines
