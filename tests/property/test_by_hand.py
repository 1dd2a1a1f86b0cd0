"""Whatever is called by hand, in whatever order: three stores say the same, and a small model agrees."""

from __future__ import annotations

import inspect
import random
from pathlib import Path

import pytest

from ce_engine import MemoryStore, create_context_engine
from tests.property.by_hand import run_case
from tests.property.by_hand_model import Model
from tests.property.by_hand_more import calls


@pytest.mark.req("A-13", "A-14", "B-03")
@pytest.mark.parametrize("seed", range(14))
def test_three_stores_and_the_model_agree(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_SECRET", "the same for all stores, and long enough")
    assert run_case(seed, tmp_path).total()


NOT_CALLED = {
    "close": "ends the engine: each is closed, and its store opened again, between the calls",
    "last_report": "asked and compared after every call",
    **dict.fromkeys(
        ("list_turns", "list_reports", "list_events"), "keyed by each store's own secret"
    ),
    "check_possible": "what an installation asks once; nothing is said of a session",
    "preview": "records nothing: the tests of what is beside an answer, and CrewAI's, have it",
    "redact": "gives a text that is nowhere stored: the canaries, and test_by_hand_options, have it",
    "import_session": "a host's whole list, as `prepare` takes it: test_importing has it",
    "verify_originals": "is of the second store: test_originals and the killed processes have it",
    "explain": "looks at a turn again, as `replay` does: test_costs and the canaries have it",
    **dict.fromkeys(
        ("fetch_evidence", "fetch_evidence_tool"), "is a model's tool: test_tool_results has it"
    ),
    "compact": "makes a view of the log: test_compacting has it",
    "violations": "waits for a judge, of which there is none here: test_judge has it",
    "post_tasks": "the tasks of a framework: CrewAI's tests and the canaries have it",
    "sweep": "deletes what is old: test_retention has it",
    "export_user_data": "reads what the other doors read: test_user_export has it",
    "handover": "of a run that failed: test_handover has it",
    "config_of": "a configuration for some calls: test_call_config has it",
    "verify_settings": "reads what owners set: test_forged_settings has it",
    "constraints.accept": "says that a forged or older rule is right: test_forged_settings has it",
    "recorded_call": "a part of `ce inspect`, whose tests have it",
}


def public(thing: object, prefix: str = "") -> set[str]:
    found = inspect.getmembers(type(thing), inspect.isfunction)
    return {f"{prefix}{name}" for name, _ in found if not name.startswith("_")}


def tried(draws: int = 3000) -> set[str]:
    """The methods that the makers of calls draw in a session that has a bit of all."""
    scope, rng = Model.scopes[0], random.Random(1)
    methods = set()
    for _ in range(draws):
        model = Model()
        known = model.sessions[scope]
        known.turns["turn"], known.evidence["evidence"] = {}, "text"
        if rng.random() < 0.5:
            known.prepared["prepared"] = {}
        methods.add(calls(rng, model, scope).method)
    return methods


def test_every_public_method_is_called() -> None:
    engine = create_context_engine(MemoryStore())
    there = public(engine) | public(engine.constraints, "constraints.")
    there |= public(engine.budgets, "budgets.")
    engine.sync.close()
    called = tried()
    assert sorted(there - called - NOT_CALLED.keys()) == []
    assert sorted((NOT_CALLED.keys() | called) - there) == ["store.put_session"]
    assert sorted(NOT_CALLED.keys() & called) == []
