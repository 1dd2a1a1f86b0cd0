"""One random case from one seed: its mix, its hosts on one log, and what must hold at the end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from ce_engine.schema.message_forest import MessageForest
from tests.property.hosts import HOSTS, Host, Mix
from tests.property.oracle import Ledger, Sent, Witness
from tests.property.recorder import Obj


TURNS = 10
OPS = ("retry", "drop", "keep", "restart", "crash", "edit", "branch", "regenerate", "remove")
TRAITS = ("constant", "clones", "ids", "systems", "preload", "rewrite", "strip")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two hosts on one log, step by step in any order.

    Attributes:
        lane_keys: each has a lane key of its own.
        together: both in one process, else each in its own.
    """

    first: Mix
    second: Mix
    lane_keys: bool = False
    together: bool = False

    @property
    def name(self) -> str:
        name = f"{self.first.name} | {self.second.name}"
        name += " by lane" if self.lane_keys else ""
        return name + (" together" if self.together else "")


FAILING = ("retry", "drop", "keep", "restart", "crash")
TOOLS = tuple(
    Mix(repeat=repeat, tools=ids, early=early, turned=turned, ops=("retry", "restart"))
    for repeat in (False, True)
    for ids in ("own", "same")
    for early in (False, True)
    for turned in (False, True)
)
MIXES: tuple[Mix | Pair, ...] = (
    Mix(),
    Mix(repeat=True),
    Mix(repeat=True, traits=("constant",)),
    Mix(ops=FAILING),
    Mix(repeat=True, ops=FAILING),
    *(Mix(window=window, ops=("retry", "restart")) for window in ("2", "3", "cut", "summary")),
    *(Mix(repeat=True, window=window, ops=("retry",)) for window in ("3", "cut", "summary")),
    Mix(repeat=True, window="3", traits=("constant",)),
    *(Mix(window=window, tools="same", early=True) for window in ("2", "3", "cut", "summary")),
    Mix(window="summary", tools="same", ops=("branch",)),
    Mix(ops=("edit", "branch", "regenerate")),
    Mix(repeat=True, ops=("edit",)),
    Mix(repeat=True, ops=("branch", "retry")),
    Mix(tools="same", ops=("edit", "branch", "regenerate", "retry"), traits=("ids",)),
    Mix(ops=("remove", "retry")),
    Mix(repeat=True, traits=("preload", "systems", "clones")),
    Mix(tools="same", ops=("retry",), traits=("rewrite", "strip")),
    *TOOLS,
    Mix("stateless"),
    Mix("stateless", repeat=True, ops=("retry",)),
    Mix("stateless", ops=("retry", "crash")),
    Mix("stateless", repeat=True, tools="same", early=True, ops=("retry", "crash")),
    Mix("team"),
    Mix("team", repeat=True, ops=("retry",)),
    Pair(Mix(), Mix()),
    Pair(Mix(repeat=True, ops=("retry",)), Mix(repeat=True, ops=("retry",))),
    Pair(Mix(ops=("branch", "edit")), Mix("stateless", repeat=True, ops=("retry",))),
    Pair(Mix(window="3", repeat=True), Mix(window="summary", repeat=True), lane_keys=True),
    Pair(Mix("team"), Mix("stateless", tools="same", ops=("retry",)), lane_keys=True),
    Pair(Mix(tools="own", ops=("retry",)), Mix("stateless", ops=("retry",)), together=True),
)


def random_host(rng: Random) -> Mix:
    kind = rng.choice(("chat", "chat", "chat", "chat", "stateless", "team"))
    mix = Mix(
        kind=kind,
        repeat=rng.random() < 0.5,
        window=rng.choice(("", "", "3", "2", "cut", "summary")) if kind == "chat" else "",
        tools=rng.choice(("", "", "own", "same")) if kind != "team" else "",
        early=rng.random() < 0.5,
        turned=rng.random() < 0.5,
        ops=some(rng, OPS),
        traits=some(rng, TRAITS),
    )
    return decidable(mix)


def some(rng: Random, names: tuple[str, ...]) -> tuple[str, ...]:
    share = rng.choice((0.0, 0.2, 0.5))
    return tuple(name for name in names if rng.random() < share)


def decidable(mix: Mix) -> Mix:
    """Without what content cannot decide: a rule applies there, and examples test the rules."""
    ops, traits = set(mix.ops), set(mix.traits)
    if mix.repeat:  # the same text after the same answer is a retry, or a regeneration
        ops -= {"regenerate", "remove"}
        ops -= {"edit"} if "branch" in ops else set()
    if "remove" in ops:  # a question whose predecessor is gone is another question
        ops -= {"regenerate"}
        ops -= {"branch"} if "edit" in ops else set()
    if mix.window:  # no known answer may be left in the window
        ops -= {"edit"}
        ops -= {"branch"} if mix.repeat else set()
        ops -= {"keep", "crash"} if mix.repeat or "regenerate" in ops else set()
        ops -= {"crash"} if mix.window == "cut" else set()
    if "ids" in traits:  # one object with one id is one message
        traits -= {"constant"}
    return replace(
        mix,
        repeat=mix.repeat and mix.window not in ("2", "cut"),
        ops=tuple(op for op in OPS if op in ops),
        traits=tuple(trait for trait in TRAITS if trait in traits),
    )


def random_pair(rng: Random) -> Pair:
    """Two hosts; without lane keys a list must show whose it is, and no first turn comes twice."""
    first, second = random_host(rng), random_host(rng)
    if first.kind == second.kind == "stateless":  # the same question from both is one by the rule
        second = replace(second, repeat=False)
    lane_keys, together = rng.random() < 0.5, rng.random() < 0.3
    repeat = not lane_keys and (first.repeat or second.repeat)
    hidden = set() if lane_keys else {"crash"}
    hidden |= {"crash", "restart"} if together else set()  # one would end the other's calls
    hidden |= {"remove", "edit"} if repeat else set()

    def shown(mix: Mix) -> Mix:
        ops = tuple(op for op in mix.ops if op not in hidden)
        return replace(mix, window="" if repeat else mix.window, ops=ops)

    return Pair(shown(first), shown(second), lane_keys, together)


def run_case(seed: int) -> str:
    """Run the case of `seed`; return the name of its mix, or `any ...` for a random one.

    Raises:
        AssertionError: a property does not hold.
    """
    rng = Random(seed)
    mix: Mix | Pair
    if rng.random() < 0.5:
        mix = rng.choice(MIXES)
        name = mix.name
    elif rng.random() < 0.3:
        mix, name = random_pair(rng), "any pair"
    else:
        mix = random_host(rng)
        name = f"any {mix.kind}"
    run_mix(mix, rng)
    return name


def run_mix(mix: Mix | Pair, rng: Random) -> None:
    if isinstance(mix, Pair):
        run_pair(mix, rng)
    else:
        host = Session().host("h", mix, rng.random())
        for _ in host.run(rng.randint(1, TURNS)):
            pass


@dataclass
class Session:
    """A log with the truth about it."""

    log: MessageForest = field(default_factory=MessageForest)
    ledger: Ledger = field(default_factory=Ledger)
    truths: list[str] = field(default_factory=list)

    def witness(self, *, exact: bool) -> Witness:
        return Witness(self.log, self.ledger, self.truths, exact=exact)

    def host(
        self, name: str, mix: Mix, seed: float, lane_key: str = "", witness: Witness | None = None
    ) -> Host:
        witness = witness or self.witness(exact=not mix.repeat)
        return HOSTS[mix.kind](name, Random(seed), mix, witness, lane_key)

    def rows(self, name: str) -> list[tuple[str, str | None]]:
        """The messages of one host with their parents, in order of the log."""
        parents = [None if e.parent is None else self.truths[e.parent] for e in self.log.entries]
        return [(t, p) for t, p in zip(self.truths, parents, strict=True) if t.startswith(name)]


def run_pair(pair: Pair, rng: Random) -> None:
    """Property 9: each host's rows are as if it were alone, and a later stateless call misses nothing."""
    exact = not (pair.first.repeat or pair.second.repeat)
    plans = [
        (name, mix, rng.random(), name if pair.lane_keys else "", rng.randint(1, TURNS // 2))
        for name, mix in (("a", pair.first), ("b", pair.second))
    ]
    session = Session()
    one = session.witness(exact=exact)
    witnesses = [one, one if pair.together else session.witness(exact=exact)]
    running = [
        session.host(*plan[:4], witness).run(plan[4])
        for plan, witness in zip(plans, witnesses, strict=True)
    ]
    while running:
        steps = rng.choice(running)
        if next(steps, "over") == "over":
            running.remove(steps)
    for name, mix, seed, lane_key, turns in plans:
        alone = Session()
        for _ in alone.host(name, mix, seed, lane_key).run(turns):
            pass
        assert session.rows(name) == alone.rows(name), f"9: {name} is another when alone"
        later = Sent(Obj("user", f"later {name}", origin="task"), f"later {name}")
        session.witness(exact=exact).prepare([later], lane_key=lane_key)
