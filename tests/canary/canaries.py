"""Strings that the redactor must catch, made at random; whoever finds one again has found a leak."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field


KINDS: dict[str, Callable[[random.Random], str]] = {}


def _kind(make: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    KINDS[make.__name__.strip("_")] = make
    return make


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(string.digits) for _ in range(count))


@_kind
def _mail(rng: random.Random) -> str:
    name = "".join(rng.choice(string.ascii_lowercase) for _ in range(9))
    return f"{name}.{_digits(rng, 4)}@corp-{_digits(rng, 5)}.example.com"


@_kind
def _phone(rng: random.Random) -> str:
    return f"13{rng.choice('56789')}{_digits(rng, 8)}"


@_kind
def _card(rng: random.Random) -> str:
    body = "4" + _digits(rng, 14)
    doubled = [int(d) * (2 - k % 2) for k, d in enumerate(body)]
    total = sum(n // 10 + n % 10 for n in doubled)
    return body + str(-total % 10)


@_kind
def _id_card(rng: random.Random) -> str:
    body = f"110105{rng.randint(1950, 2009)}{rng.randint(1, 12):02}{rng.randint(1, 28):02}"
    body += _digits(rng, 3)
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    rest = sum(int(d) * w for d, w in zip(body, weights, strict=True)) % 11
    return body + "10X98765432"[rest]


@_kind
def _key(rng: random.Random) -> str:
    return "sk-" + "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(40))


@_kind
def _token(rng: random.Random) -> str:
    return "ghp_" + "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(36))


@_kind
def _mac(rng: random.Random) -> str:
    return "02:" + ":".join(f"{rng.randrange(256):02x}" for _ in range(5))


@_kind
def _ipv6(rng: random.Random) -> str:
    return "2a02:" + ":".join(f"{rng.randrange(0x1000, 0x10000):x}" for _ in range(7))


@_kind
def _wallet(rng: random.Random) -> str:
    return "0x" + "".join(rng.choice("0123456789abcdef") for _ in range(40))


AROUND = ("联系{}，谢谢", "x {} y", "（{}）", "请转告{}。", "{}")


@dataclass
class Canaries:
    """Gives canaries for doors, and finds them again. The same seed gives the same ones."""

    seed: int
    kind: str = ""
    drawn: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self, door: str) -> str:
        """A text with a canary in it, for this door."""
        kind = self.kind or self._random.choice(sorted(KINDS))
        value = KINDS[kind](self._random)
        self.drawn.append((door, value))
        return self._random.choice(AROUND).format(value)

    def split(self, door: str) -> list[str]:
        """The same in pieces, as a stream brings it: the canary itself is torn."""
        text = self(door)
        start = text.index(self.drawn[-1][1])
        cuts = sorted(start + self._random.randint(1, 8) for _ in range(2))
        return [text[: cuts[0]], text[cuts[0] : cuts[1]], text[cuts[1] :]]

    def drawn_for(self, door: str) -> str:
        """The newest canary of a door."""
        return next(value for name, value in reversed(self.drawn) if name == door)

    @property
    def doors(self) -> set[str]:
        return {door for door, _ in self.drawn}

    def found_in(self, *places: str | bytes) -> set[str]:
        """The doors whose canaries stand in these texts, files or dumps, as they are or as JSON."""
        found = set()
        for place in places:
            data = place.encode("utf-8", "replace") if isinstance(place, str) else place
            for door, value in self.drawn:
                forms = {value, json.dumps(value)[1:-1], value.upper(), value.lower()}
                if any(form.encode() in data for form in forms):
                    found.add(door)
        return found
