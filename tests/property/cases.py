"""One random case from one seed: a mix, one or two hosts on one log, and what must hold at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from ce_engine.schema.log import Log
from tests.property.hosts import HOSTS, Host, Mix, StatelessHost, Steps
from tests.property.oracle import Ledger, Witness


TURNS = 10

FAILING = ("retry", "drop", "keep")
OPS = (*FAILING, "restart", "crash", "edit", "branch", "regenerate", "remove")
TRAITS = ("constant", "clones", "ids", "systems", "preload", "rewrite", "strip")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two hosts on one log, each its own process or both in one, step by step in any order."""

    first: Mix
    second: Mix
    lane_keys: bool = False

    @property
    def name(self) -> str:
        return f"{self.first.name} | {self.second.name}" + (" by lane" if self.lane_keys else "")


def random_mix(rng: Random) -> Mix | Pair:
    if rng.random() < 0.3:
        return random_pair(rng)
    return random_host(rng)


def random_host(rng: Random) -> Mix:
    kind = rng.choice(("chat", "chat", "chat", "chat", "stateless", "team"))
    tools = rng.choice(("", "", "own", "same"))
    mix = Mix(
        kind=kind,
        repeat=rng.random() < 0.5,
        window=rng.choice(("", "", "3", "2", "cut", "summary")) if kind == "chat" else "",
        tools=tools if kind != "team" else "",
        early=rng.random() < 0.5,
        turned=rng.random() < 0.5,
        ops=some(rng, OPS),
        traits=some(rng, TRAITS),
    )
    return decidable(mix)


def some(rng: Random, names: tuple[str, ...]) -> tuple[str, ...]:
    p = rng.choice((0.0, 0.2, 0.5))
    return tuple(name for name in names if rng.random() < p)


def decidable(mix: Mix) -> Mix:
    """Without what content cannot decide: rules apply there, and the examples test those."""
    ops, traits = set(mix.ops), set(mix.traits)
    if mix.repeat:  # the same text after the same answer is a retry, or a regeneration
        ops -= {"regenerate", "remove"}
    if "remove" in ops:  # a question whose predecessor is gone is another question
        ops -= {"regenerate"}
    if mix.window:  # no answer that is known may be left in the window
        ops -= {"edit"}
        ops -= {"keep", "crash"} if mix.repeat or "regenerate" in ops else set()
    if "ids" in traits:  # one object with one id is one message
        traits -= {"constant"}
    return replace(
        mix,
        repeat=mix.repeat and mix.window not in ("2", "cut"),
        ops=tuple(op for op in OPS if op in ops),
        traits=tuple(trait for trait in TRAITS if trait in traits),
    )


def random_pair(rng: Random) -> Pair:
    return decidable_pair(Pair(random_host(rng), random_host(rng), lane_keys=rng.random() < 0.5))


def decidable_pair(pair: Pair) -> Pair:
    """Without lane keys a list must show whose it is: whole if texts repeat, no first turn twice.

    Two hosts that send the same question alone at the same time are one by the rule.
    """
    if pair.first.kind == pair.second.kind == "stateless":
        pair = replace(pair, second=replace(pair.second, repeat=False))
    if pair.lane_keys:
        return pair
    repeat = pair.first.repeat or pair.second.repeat
    hidden = {"crash", "remove", "edit"} if repeat else {"crash"}
    mixes = [
        replace(
            mix,
            window="" if repeat else mix.window,
            ops=tuple(op for op in mix.ops if op not in hidden),
        )
        for mix in (pair.first, pair.second)
    ]
    return Pair(*mixes)


def random_case(seed: int, mix: Mix | Pair | None = None) -> str:
    """Run the case of `seed` and return the name of its mix.

    Raises:
        AssertionError: a property does not hold.
    """
    rng = Random(seed)
    mix = mix or random_mix(rng)
    if isinstance(mix, Pair):
        run_pair(rng, mix)
    else:
        run_alone(rng, mix)
    return mix.name


@dataclass
class Session:
    log: Log
    ledger: Ledger
    truths: list[str]

    @classmethod
    def empty(cls) -> Session:
        return cls(Log(), Ledger(), [])

    def host(self, name: str, seed: int, mix: Mix, lane_key: str = "") -> Host:
        witness = Witness(self.log, self.ledger, self.truths, exact=not mix.repeat)
        return HOSTS[mix.kind](name, Random(seed), mix, witness, lane_key)


def run_alone(rng: Random, mix: Mix) -> None:
    host = Session.empty().host("h", rng.random(), mix)
    for _ in host.run(rng.randint(1, TURNS)):
        pass


def run_pair(rng: Random, pair: Pair) -> None:
    session = Session.empty()
    exact = not (pair.first.repeat or pair.second.repeat)
    hosts: list[Host] = []
    plans = []
    for name, mix in (("a", pair.first), ("b", pair.second)):
        plans.append((name, rng.random(), mix, name if pair.lane_keys else "", rng.randint(1, TURNS // 2)))
    for name, seed, mix, lane_key, turns in plans:
        host = session.host(name, seed, mix, lane_key)
        host.witness.exact = exact
        hosts.append(host)
    running = [host.run(plan[4]) for host, plan in zip(hosts, plans, strict=True)]
    while running:
        steps = rng.choice(running)
        try:
            next(steps)
        except StopIteration:
            running.remove(steps)
    for host in hosts:
        for name, seed, mix, lane_key, turns in plans:
            alone = Session.empty()
            one = alone.host(name, seed, mix, lane_key)
            for _ in one.run(turns):
                pass
            mine = family(session, name)
            assert mine == family(alone, name), f"9: {name} differs when alone"


def family(session: Session, name: str) -> list[tuple[str, str | None]]:
    """The rows of one host with their parents, in order."""
    found = []
    for entry in session.log.entries:
        truth = session.truths[entry.n]
        if truth.startswith(name):
            parent = None if entry.parent is None else session.truths[entry.parent]
            found.append((truth, parent))
    return found
