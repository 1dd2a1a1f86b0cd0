"""Where an answer or a piece of evidence comes from and where it went, as a graph in columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ce_engine.apps.present.html_text import line
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.links import arguments, usage_words
from ce_engine.apps.present.output import short_id
from ce_engine.apps.present.vocabulary import word
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.trace import EvidenceTrace, Trace


ASKED, SOURCE, EVIDENCE, READER = range(4)
"""The columns: who asked for it, the call that made it, the evidence, and the messages that it went to."""

MOST = 14
"""Nodes of a column that are drawn, the firm ones first; the table beside has all."""

QUOTES_NONE = "No quoted source was found: too little of any of them stands in it word for word. They were shown to the model."


@dataclass(slots=True)
class Node:
    """One thing of the graph.

    Attributes:
        id: its id in the session; `""` of what has none.
        kind: `message`, `evidence`, `tool_call`, `model_call`, `document`.
        column: from the left, 0 first.
        title: what it is, in few words.
        text: what it says.
        turn: the turn that it is of.
        is_asked: it is what the graph is of.
    """

    id: str
    kind: str
    column: int
    title: str
    text: str = ""
    turn: int | None = None
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """From a node to one that comes of it; `is_firm` where the one rests on the other, not only saw it."""

    start: str
    end: str
    is_firm: bool = True


@dataclass(slots=True)
class Graph:
    """Nodes by key, in the order in which they are drawn, and their edges."""

    say: Say = ENGLISH
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    left_out: int = 0

    def add(self, key: str, node: Node) -> bool:
        """Take a node in; whether it is drawn."""
        if key in self.nodes:
            return True
        if sum(other.column == node.column for other in self.nodes.values()) >= MOST:
            self.left_out += 1
            return False
        self.nodes[key] = node
        return True

    def link(self, start: str, end: str, *, is_firm: bool = True) -> None:
        edge = Edge(start, end, is_firm)
        if start in self.nodes and end in self.nodes and edge not in self.edges:
            self.edges.append(edge)

    def columns(self) -> list[list[tuple[str, Node]]]:
        """The nodes by column, empty columns left out; each near those that it is linked with."""
        by_column: dict[int, list[tuple[str, Node]]] = {}
        for key, node in self.nodes.items():
            by_column.setdefault(node.column, []).append((key, node))
        return [nodes for _, nodes in sorted(by_column.items())]


def graph(
    trace: Trace,
    document: SessionDocument | None,
    turns: dict[str, int],
    say: Say = ENGLISH,
) -> Graph:
    """The graph of a trace.

    Args:
        trace: where it leads.
        document: of the session; without it, messages are known by their ids alone.
        turns: numbers of turns by the message that each gave as its answer.
        say: the language of the titles.
    """
    picture = Graph(say)
    stored_messages = document.session.messages if document is not None else []
    messages = {m.message_id: m for m in stored_messages if m.message_id}
    if document is None:
        messages = {name: _unread(name) for name in _names(trace)}
    if trace.kind == "message" and trace.id in messages:
        _message(picture, messages[trace.id], turns, is_asked=True)
    for item in trace.evidence:
        _evidence(picture, item, trace)
        readers = [trace.id] if trace.kind == "message" else _readers(item, messages)
        for name in readers:
            if name in messages and _message(picture, messages[name], turns):
                firm = name in item.quoted_by or _is_own(messages[name], item)
                picture.link(f"e:{item.ref.evidence_id}", f"m:{name}", is_firm=firm)
        _source(picture, item, turns)
    return picture


def _names(trace: Trace) -> list[str]:
    """The messages that a trace names."""
    own = [trace.id] if trace.kind == "message" else []
    return [*own, *(name for item in trace.evidence for name in item.used_by)]


def _unread(name: str) -> Message:
    return Message(role=Role.ASSISTANT, content=short_id(name), message_id=name)


def _readers(item: EvidenceTrace, messages: dict[str, Message]) -> list[str]:
    """The messages that it went to: what it is itself, what rests on it, and then who was only shown it."""
    reader_ids = [name for name in item.used_by if name in messages]

    def rank(name: str) -> int:
        return 0 if _is_own(messages[name], item) else 1 if name in item.quoted_by else 2

    return sorted(reader_ids, key=rank)


def _is_own(message: Message, item: EvidenceTrace) -> bool:
    """Whether the evidence is what the message itself says, such as a tool's result."""
    return item.evidence is not None and item.evidence.content == message.content


def _message(
    picture: Graph, message: Message, turns: dict[str, int], *, is_asked: bool = False
) -> bool:
    name = message.message_id or ""
    role = word(message.role.value, picture.say)
    title, turn = f"{role} · {message.author.id}" if message.author else role, turns.get(name)
    text = message.content or ", ".join(call.name for call in message.tool_calls or ())
    node = Node(name, "message", READER, title, line(text), turn, is_asked)
    return picture.add(f"m:{name}", node)


def _evidence(picture: Graph, item: EvidenceTrace, trace: Trace) -> None:
    name, evidence = item.ref.evidence_id, item.evidence
    kind = word(evidence.type.value, picture.say) if evidence else picture.say("kept elsewhere")
    text = line(item.text or evidence.content) if evidence is not None else ""
    is_asked = trace.kind == "evidence" and trace.id == name
    node = Node(name, "evidence", EVIDENCE, kind, text, None, is_asked)
    picture.add(f"e:{name}", node)


def _source(picture: Graph, item: EvidenceTrace, turns: dict[str, int]) -> None:
    """What made the evidence: a tool's run, a model call, or where it says that it is from."""
    key = f"e:{item.ref.evidence_id}"
    for name, node in _sources(item, picture.say):
        if picture.add(name, node):
            picture.link(name, key)
    asking = item.asked_by
    if asking is not None and item.tool_call is not None:
        name = asking.message_id or ""
        turn = turns.get(name, item.turn)
        text = asking.content or ", ".join(call.name for call in asking.tool_calls or ())
        node = Node(name, "message", ASKED, word(asking.role.value, picture.say), line(text), turn)
        if picture.add(f"a:{name}", node):
            picture.link(f"a:{name}", f"t:{item.tool_call.tool_call_id}")


def _sources(item: EvidenceTrace, say: Say) -> Iterator[tuple[str, Node]]:
    if (call := item.tool_call) is not None:
        text = f"{call.tool}({arguments(call.args_digest)})"
        title = f"{call.tool} · {word(call.status.value, say)}, {call.duration_ms} ms"
        yield (
            f"t:{call.tool_call_id}",
            Node(call.tool_call_id, "tool_call", SOURCE, title, line(text), item.turn),
        )
    elif (usage := item.model_usage) is not None:
        title = usage.model or usage.provider or short_id(usage.model_usage_id)
        yield (
            f"u:{usage.model_usage_id}",
            Node(
                usage.model_usage_id,
                "model_call",
                SOURCE,
                title,
                usage_words(usage, say),
                item.turn,
            ),
        )
    elif item.evidence is not None:
        source = item.evidence.source
        title = source.name or word(source.kind.value, say)
        yield (
            f"s:{source.kind.value}:{source.name}:{source.uri}",
            Node("", "document", SOURCE, title, source.uri, item.turn),
        )
