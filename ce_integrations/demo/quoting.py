"""The rule of the offline model, which needs no network: it calls `lookup` for what is named, else quotes its input."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


MODEL = "offline-quotes"
TOOL = "lookup"
NOTHING = "I find nothing about that in what I was given."

OVERHEAD_TOKENS = 4
"""What a message or a call costs beside its text."""

_NAMED = re.compile(r"`([^`\s]+)`")
_WORD = re.compile(r"[a-z0-9]+(?:[._+/-][a-z0-9]+)*|[\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
_PIECE = re.compile(r"\S+\s*")
_QUOTED = re.compile(r"^\[([0-9]{6,})\] .*\n((?:\|.*\n)*)\[/\1\]\n*", re.MULTILINE)
_MARK = re.compile(r"^\|(?:# | {0,2})", re.MULTILINE)
_STOP = frozenset(
    ["a", "about", "an", "and", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for", "from", "has", "have", "how", "i", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "that", "the", "their", "this", "to", "us", "was", "we", "were", "what", "when", "which", "who", "will", "with", "you", "your"]
)  # fmt: skip


class Call(NamedTuple):
    """A call of a tool, as the model asks for it."""

    id: str
    name: str
    args: Mapping[str, Any]


class Said(NamedTuple):
    """A message of the request: `role` is `system`, `user`, `assistant` or `tool`; `answers` names a call's id."""

    role: str
    text: str
    calls: Sequence[Call] = ()
    answers: str = ""


class Reply(NamedTuple):
    """Text or calls, never both, with the tokens of the request and of the reply."""

    text: str
    calls: list[Call]
    sent_tokens: int
    got_tokens: int

    @property
    def pieces(self) -> list[str]:
        """The text word by word, as it is streamed."""
        return _PIECE.findall(self.text)


class _Quote(NamedTuple):
    """A sentence and how well it answers: shared words, their letters, and how late it stands."""

    shared: int
    letters: int
    position: int
    text: str


@dataclass(frozen=True, slots=True)
class QuotingModel:
    """Sees nothing but the request, and follows one rule.

    If the tool `lookup` is there and the newest user message names, in backticks, an installed
    distribution for which no result of `lookup` stands in the request, the model asks for exactly
    these. Else it answers with the sentence of the request (system text, earlier messages, tool
    results; not the newest user message itself) that shares most words with the question; of equals
    the one whose shared words are longest, then the latest. The question is what ends with a question
    mark in the newest user message, else all of it; what was a question itself answers nothing.

    Attributes:
        known_names: canonical names of what is installed: a word in backticks may be anything.
        count: tokens of a text, for the usage that the reply reports.
    """

    known_names: frozenset[str] = frozenset()
    count: Callable[[str], int] = lambda text: len(text.encode()) // 4 + 1

    def reply(self, request: Sequence[Said], tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Answer a request with its `tools`: schemas of functions, in OpenAI's wrapping or bare."""
        tokens = self._tokens(request, tools)
        request = [part for message in request for part in _parts(message)]
        question = next((message for message in reversed(request) if message.role == "user"), None)
        calls = self._calls(request, question, tools) if question is not None else []
        text = "" if calls else quote(request, question)
        got = self.count(text) + sum(self.count(str(call.args)) for call in calls)
        return Reply(text, calls, tokens, got)

    def _calls(
        self, request: Sequence[Said], question: Said, tools: Sequence[Mapping[str, Any]]
    ) -> list[Call]:
        functions = [tool.get("function", tool) for tool in tools]
        schema = next((function for function in functions if function["name"] == TOOL), None)
        if schema is None:
            return []
        argument = next(iter(schema["parameters"]["properties"]))
        done = _looked_up(request, argument)
        names = [canonical(name) for name in _NAMED.findall(question.text)]
        missing = dict.fromkeys(
            name for name in names if name in self.known_names and name not in done
        )
        return [Call(f"call_{secrets.token_hex(8)}", TOOL, {argument: name}) for name in missing]

    def _tokens(self, request: Sequence[Said], tools: Sequence[Mapping[str, Any]]) -> int:
        parts = [message.text for message in request]
        parts += [f"{call.name}{call.args}" for message in request for call in message.calls]
        return sum(self.count(part) + OVERHEAD_TOKENS for part in parts) + sum(
            self.count(str(tool)) for tool in tools
        )


def _parts(message: Said) -> Iterator[Said]:
    """What is quoted before somebody's words is not theirs: it is given, as what the system says is."""
    own, at = [], 0
    for match in _QUOTED.finditer(message.text):
        yield Said("system", _MARK.sub("", match[2]))
        own.append(message.text[at : match.start()])
        at = match.end()
    yield message._replace(text="".join([*own, message.text[at:]]))


def quote(request: Sequence[Said], question: Said | None) -> str:
    """The sentence of the request that shares most words with the question."""
    if question is None:
        return NOTHING
    question_sentences = sentences(question.text)
    wanted_words = set(words(" ".join(filter(_is_question, question_sentences)) or question.text))
    lines = [s for message in request if message is not question for s in sentences(message.text)]
    quotes = (_quote(wanted_words, s, n) for n, s in enumerate(lines) if not _is_question(s))
    best = max(quotes, default=None)
    return best.text if best is not None and best.shared else NOTHING


def words(text: str) -> list[str]:
    """The words that say something: no function words; of Chinese the pairs of characters."""
    all_words: list[str] = []
    for run in _WORD.findall(text.lower()):
        if not _HAN.match(run) or len(run) == 1:
            all_words.append(run)
        else:
            all_words += [run[i : i + 2] for i in range(len(run) - 1)]
    return [_singular(word) for word in all_words if word not in _STOP]


def _singular(word: str) -> str:
    """`requires` and `require` are one word, and so are `licences` and `licence`."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] not in "su" else word


def sentences(text: str) -> list[str]:
    """The sentences of a text; a line's end ends one as well."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _is_question(sentence: str) -> bool:
    return sentence.rstrip("\"')”’）").endswith(("?", "？"))


def _quote(wanted_words: set[str], sentence: str, position: int) -> _Quote:
    shared = wanted_words.intersection(words(sentence))
    return _Quote(len(shared), sum(map(len, shared)), position, sentence)


def _looked_up(request: Sequence[Said], argument: str) -> set[str]:
    """What stands in the request with its result, whatever became of the text of the result."""
    results = {message.answers for message in request if message.role == "tool"}
    return {
        canonical(str(call.args.get(argument, "")))
        for message in request
        for call in message.calls
        if call.name == TOOL and call.id in results
    }
