"""One random case from one seed: which hosts, in which mix, on one log, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from ce_engine.schema.log import Log
from tests.property.hosts import HOSTS, ChatHost, Host, Mix, StatelessHost
from tests.property.oracle import Ledger, Witness

EVERY = ("retry", "drop", "keep", "restart", "crash")

MIXES = (
    Mix(),
    Mix(repeat=True),
    Mix(ops=EVERY),
    Mix(repeat=True, ops=EVERY),
    *(Mix(window=w, ops=EVERY) for w in ("3", "2", "cut", "summary")),
    *(Mix(window=w, ops=("retry",), repeat=True) for w in ("3", "cut", "summary")),
    *(Mix(tools="same", repeat=r, early=e, turned=t, ops=("retry", "restart")) for r in (False, True) for e in (False, True) for t in (False, True)),
    Mix(kind="stateless", ops=("retry", "crash")),
    Mix(kind="stateless", repeat=True, tools="same", early=True, ops=("retry", "crash")),
    Mix(kind="team"),
    Mix(kind="team", ops=("retry",)),
    Mix(kind="team", repeat=True),
)

def run_one(mix: Mix, seed: int, steps: int = 8) -> None:
    rng = Random(seed)
    log, ledger, truths = Log(), Ledger(), []
    w = Witness(log, ledger, truths, exact=not mix.repeat)
    host = HOSTS[mix.kind]("h", rng, mix, w)
    for _ in host.run(rng.randint(1, steps)):
        pass
