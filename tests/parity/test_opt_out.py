"""In every framework a user who wants nothing remembered is answered as before, and no word of it is stored (B-08)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ce_engine import RuntimeConfig, Scope, create_context_engine
from ce_engine.testing.faults import SwitchStore
from ce_integrations.calls.evidence_tool import fetch_evidence, is_fetch
from ce_integrations.install.adapter import Way
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.framework_apps import FrameworkApps
from ce_integrations.testing.side_by_side import PATIENT, SideBySide
from ce_integrations.testing.wire import Wire
from tests.parity.scenario import FRAMEWORKS, apps_of, installed, lookup


HERE = [name for name in FRAMEWORKS if installed(name)]
SECRET = "琥珀獭十七 amber-otter"
QUESTIONS = [f"My word is {SECRET}. Look up 航道.", "What was my word?"]
SCRIPT = [
    tool_calls([("lookup", {"word": f"航道 {SECRET}"})]),
    text(f"Noted: {SECRET}."),
    text(f"It was {SECRET}."),
]


def outcome(
    apps: FrameworkApps, *, out: bool, by_installation: bool = False
) -> tuple[list[str], str]:
    """What the app answered, and all that is stored of it."""
    own = PATIENT.model_copy(update={"memory_opt_out": lambda _: out})
    config, options = (PATIENT, {"config": own}) if by_installation else (own, {})
    with SideBySide(apps) as trial, Wire(list(SCRIPT)) as wire:
        trial.engine.sync.close()
        trial.store = SwitchStore()
        trial.engine = create_context_engine(trial.store, config=config)
        way: Way = "sync" if "sync" in apps.adapter.capabilities.ways else "async"
        drive = trial.asking(QUESTIONS, way)
        played = trial.installed(wire, apps.make_target(wire, (lookup,)), drive, **options)
        stored = [trial.engine.sync.export_user_data(*key[:2]) for key in keys(trial)]
        return list(played.result), "".join(each.model_dump_json() for each in stored)


def keys(trial: SideBySide) -> list[tuple[str, str, str]]:
    assert trial.engine.sync.flush()
    found = trial.engine.loop.run(trial.store.list_keys())
    assert found
    return found


@pytest.mark.req("B-08")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_word_of_who_opts_out_is_stored(framework: str) -> None:
    if framework not in HERE:
        pytest.skip(f"{framework} is not installed")
    apps = apps_of(framework)[0]
    said, kept = outcome(apps(), out=False)
    assert "otter" in kept, "it is stored where nobody opts out, so that the test can fail"
    for by_installation in (False, True):  # on an engine that several share, too
        answers, stored = outcome(apps(), out=True, by_installation=by_installation)
        assert answers == said
        assert "otter" not in stored
        assert "琥珀獭" not in stored


NOTE = f"The word is {SECRET}. " + "Nothing else is said here, 别无他话. " * 40


def read_note(place: str) -> str:
    """Read the note of a place."""
    return f"{place}: {NOTE}"


def fetches(evidence_id: str) -> Callable[[JsonObject], Answer]:
    """A model that asks for a piece of evidence, and then is content."""

    def answer(body: JsonObject) -> Answer:
        if any(each["role"] == "tool" for each in body["messages"]):
            return text("So it is.")
        names = (each["function"]["name"] for each in body["tools"])
        return tool_calls([(next(filter(is_fetch, names)), {"evidence_id": evidence_id})])

    return answer


def fetched(apps: FrameworkApps, own: RuntimeConfig | None) -> str:
    """What an agent's tool gave of what was stored before, with this configuration of the installation's own."""
    with SideBySide(apps) as trial:
        way: Way = "sync" if "sync" in apps.adapter.capabilities.ways else "async"
        script: list[Answer] = [
            tool_calls([("read_note", {"place": "harbour"})]),
            text("I have read it."),
        ]
        tools = (read_note, fetch_evidence)
        trial.drive(trial.asking(["Read the note."], way, "s"), script, tools)
        assert trial.engine.sync.flush()
        (key,) = [key for key in keys(trial) if key[2].endswith("s")]
        found = trial.engine.sync.list_evidences(Scope.of_stored(*key))
        [note] = [each.evidence_id for each in found if NOTE[:40] in each.content]
        drive = trial.asking(["What did it say?"], way, "s")
        options = {} if own is None else {"config": own}
        told = trial.drive(drive, fetches(note), tools, **options)
        return str([m["content"] for m in told.bodies[-1]["messages"] if m["role"] == "tool"][-1])


@pytest.mark.req("B-08")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_who_opts_out_by_the_installation_fetches_no_evidence_of_before(framework: str) -> None:
    """The tool finds the run that asks for it, and with it the installation whose configuration counts."""
    if framework not in HERE:
        pytest.skip(f"{framework} is not installed")
    apps = apps_of(framework)[0]
    out = PATIENT.model_copy(update={"memory_opt_out": lambda _: True})
    assert "otter" in fetched(apps(), None), "it is fetched where nobody opts out"
    said = fetched(apps(), out)
    assert "There is no evidence" in said
    assert "otter" not in said
