"""The documents of the machine itself: what the installed Python distributions say of themselves."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from typing import NamedTuple

from ce_integrations.demo.quoting import canonical, words


LOOKUP_BYTES = 900
"""What a lookup answers with, at most: no tokenizer makes more tokens than there are bytes."""

CHUNK_CHARS = 400
MAX_CHUNKS = 12
"""Chunks of one distribution at most: a changelog in a description must not drown the others."""

_BLOCKS = re.compile(r"```.*?```|~~~.*?~~~|<!--.*?-->", re.DOTALL)
_NOISE = re.compile(
    r"</?[a-zA-Z][^<>]*>"  # HTML
    r"|!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])"  # images and badges
    r"|^[ \t]*\.\. .*(?:\n[ \t]+\S.*)*"  # directives of reStructuredText with their options
    r"|^[ \t]*\[[^\]]+\]:\s.*$"  # targets of links
    r"|^[ \t]*[=~^*#+_-]{3,}[ \t]*$",  # rulers and underlines
    re.MULTILINE,
)
_REFERENCE = re.compile(r"`([^`<]+?)\s*(?:<[^>`]*>)?`_{1,2}")
_LINK = re.compile(r"\[([^\]\[]*)\](?:\([^)]*\)|\[[^\]]*\])")
_MARK = re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?)|\*\*|__|\\$", re.MULTILINE)
_BLANK = re.compile(r"\n\s*\n+")


@dataclass(frozen=True, slots=True)
class Package:
    """An installed distribution, without its files. `description` is clean text in paragraphs."""

    name: str
    version: str
    summary: str
    licence: str
    requires: tuple[str, ...]
    urls: tuple[str, ...]
    description: str

    @property
    def source(self) -> str:
        """Its package URL, the address of what is quoted from it."""
        return f"pkg:pypi/{canonical(self.name)}@{self.version}"


def installed_packages() -> dict[str, Package]:
    """Everything that is installed, by canonical name and in its order."""
    packages: dict[str, Package] = {}
    for distribution in distributions():
        package = _package(distribution)
        if package is not None:  # the first on the path is the one that Python imports
            packages.setdefault(canonical(package.name), package)
    return dict(sorted(packages.items()))


def _package(distribution: Distribution) -> Package | None:
    # Newer releases of Python give no metadata for a folder without a METADATA file.
    data: Mapping[str, str | list[str]] = getattr(distribution.metadata, "json", {})

    def one(key: str) -> str:
        value = data.get(key, "")
        return (value if isinstance(value, str) else "\n".join(value)).strip()

    name = one("name")
    if not name:
        return None  # a leftover of an installation that was broken off
    return Package(
        name=name,
        version=one("version"),
        summary=" ".join(one("summary").split()),
        licence=_licence(one("license_expression"), one("license"), _list(data.get("classifier"))),
        requires=tuple(line for line in _list(data.get("requires_dist")) if "extra ==" not in line),
        urls=tuple(line.replace(", ", ": ", 1) for line in _list(data.get("project_url"))),
        description=clean(one("description")),
    )


def _list(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _licence(expression: str, text: str, classifiers: Sequence[str]) -> str:
    """The licence as one short name; many put its whole text where the name belongs."""
    if expression:
        return expression
    if text and len(text) <= 60 and "\n" not in text and text.upper() != "UNKNOWN":
        return text
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    return " or ".join(names) or "not stated"


def clean(markdown: str) -> str:
    """Markdown or reStructuredText as plain paragraphs, without code, pictures, marks and addresses."""
    text = _BLOCKS.sub("", markdown.replace("\r\n", "\n"))
    text = _NOISE.sub("", _REFERENCE.sub(r"\1", text))
    text = _MARK.sub("", _LINK.sub(r"\1", _LINK.sub(r"\1", text)))
    paragraphs = (" ".join(part.split()) for part in _BLANK.split(text))
    return "\n\n".join(part for part in paragraphs if len(part) > 1)


def lookup_text(packages: Mapping[str, Package], distribution: str) -> str:
    """What the tool answers: the metadata in sentences, a few hundred tokens, or why there is none."""
    package = packages.get(canonical(distribution))
    if package is None:
        return (
            f"Error: no distribution named {distribution!r} is installed here. "
            f"{len(packages)} are; pass one of their names, for example {next(iter(packages), '-')!r}."
        )
    name = package.name
    needs = ", ".join(package.requires) or "nothing"
    lines = [
        f"{name} is installed in version {package.version}; its summary is: {package.summary or 'none'}",
        f"The licence (许可证) of {name} is {package.licence}.",
        f"{name} requires (依赖) {_shortened(needs, 300)}.",
    ]
    if package.urls:
        lines.append(f"The project {name} is at {'; '.join(package.urls[:3])}.")
    about = f"About {name}: {package.description or 'no description'}"
    left = LOOKUP_BYTES - len("\n".join(lines).encode()) - 1
    return "\n".join([*lines, _shortened(about, left)])


def _shortened(text: str, size: int) -> str:
    """The beginning of the text, at most `size` bytes, ending with a whole word."""
    encoded = text.encode()
    if len(encoded) <= size:
        return text
    head = encoded[: max(0, size - 4)].decode("utf-8", "ignore")
    return f"{head.rpartition(' ')[0] or head} …"


class Chunk(NamedTuple):
    """A piece of a description; `metadata` has `source`, `title`, `doc_version` and `chunk`, its number."""

    id: str
    text: str
    metadata: dict[str, str | int]


class Hit(NamedTuple):
    """A chunk that was found, and how well it fits: above 0, and comparable within one index."""

    chunk: Chunk
    score: float


def chunks(packages: Iterable[Package]) -> Iterator[Chunk]:
    """The descriptions in pieces, in the order of the packages; ids are the same on every run."""
    for package in packages:
        text = f"{package.name}: {package.summary}\n\n{package.description}"
        for number, piece in enumerate(_pieces(text)[:MAX_CHUNKS]):
            yield Chunk(
                id=f"{canonical(package.name)}@{package.version}#{number}",
                text=piece,
                metadata={
                    "source": package.source,
                    "title": package.name,
                    "doc_version": package.version,
                    "chunk": number,
                },
            )


def _pieces(text: str) -> list[str]:
    """Paragraphs put together, or taken apart, to pieces of about `CHUNK_CHARS` that end with a word."""
    pieces = [""]
    for paragraph in text.split("\n\n"):
        if pieces[-1] and len(pieces[-1]) + len(paragraph) > CHUNK_CHARS:
            pieces.append("")
        for word in paragraph.split(" "):
            if pieces[-1] and len(pieces[-1]) + len(word) >= CHUNK_CHARS:
                pieces.append("")
            pieces[-1] += f"{word[:CHUNK_CHARS]} "
        pieces[-1] = pieces[-1].rstrip(" ") + "\n"
    return [piece.strip() for piece in pieces if piece.strip()]


class WordIndex:
    """Finds chunks by the words they share with the query, rare words first; no model, no index server."""

    def __init__(self, pieces: Iterable[Chunk]) -> None:
        """Count once how many chunks hold a word."""
        self.chunks = list(pieces)
        self._words = [
            (frozenset(words(str(chunk.metadata["title"]))), frozenset(words(chunk.text)))
            for chunk in self.chunks
        ]
        holding = Counter(word for title, inside in self._words for word in title | inside)
        self._weights = {
            word: math.log1p(len(self.chunks) / count) for word, count in holding.items()
        }

    def search(self, query: str, limit: int = 3) -> list[Hit]:
        """The chunks that fit best, best first; of equals the first."""
        query_words = sorted(self._weights.keys() & set(words(query)))
        scored = []
        for position, (title, inside) in enumerate(self._words):
            score = sum(
                self._weights[word] * ((word in title) + (word in inside)) for word in query_words
            )
            if score:
                scored.append((-score, position))
        return [Hit(self.chunks[at], -score) for score, at in sorted(scored)[:limit]]
