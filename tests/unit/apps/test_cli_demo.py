"""`ce demo`: finds a framework's demo by its entry point, runs it, and tells what came out."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.cli_host import ce, process


SCRIPTED = '''
from ce_engine import Scope, create_context_engine
from ce_engine.apps.cli.demo import DemoQuestion, DemoResult
from ce_engine.testing.host import HostApp

class DEMO:
    """A demo as an adapter ships one, of a framework that needs no package."""

    @staticmethod
    def run(options, progress):
        progress(0, options.turns, "[bold]start[/bold]")
        engine = create_context_engine(options.store_url)
        app = HostApp(engine, Scope(session_id="acme demo"))
        for turn in range(options.turns):
            app.ask("Where is it?", "Here.")
            progress(turn + 1, options.turns, "[bold]turn[/bold]")
        engine.sync.close()
        questions = [
            DemoQuestion("What is the colour of the sky?", "blue", "It is blue.", True),
            DemoQuestion("Who is Ann?", "a sailor", "I do not know.", False),
        ]
        return DemoResult(
            session_id="acme demo", store_url=options.store_url, model="tiny", turns=options.turns,
            asked=2, found=1, tokens_with=1200, tokens_without=4800, messages=2 * options.turns,
            evidences=7, tool_calls=3, seconds=1.25, questions=questions,
        )
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed distributions beside the real ones."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("acme_demo", None)


def ship(site: Path, body: str) -> None:
    """Install a distribution that has a demo of the framework `acme`."""
    (site / "acme_demo.py").write_text(body, encoding="utf-8")
    info = site / "acme_demo-1.0.dist-info"
    info.mkdir()
    metadata = "Metadata-Version: 2.1\nName: acme-demo\nVersion: 1.0\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    points = "[ce_integrations.demos]\nacme = acme_demo:DEMO\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")


def test_the_figures_and_where_to_look_next(site: Path) -> None:
    ship(site, SCRIPTED)
    result = ce("demo", "--framework", "acme", "--turns", "20")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    for words in (
        "turns 20 in 1.2 s",
        "1,200, without us 4,800 (75.0% saved)",
        "40 messages, 7 evidence, 3 tool calls",
        "1 of 2 early facts",
        "ok What is the colour of the sky?",
        "lost Who is Ann?",
        "expected 'a sailor', answered 'I do not know.'",
    ):
        assert words in text
    commands = [line.strip() for line in result.stdout.splitlines() if line.startswith("  ce ")]
    assert commands == ["ce sessions", "ce show 'acme demo'", "ce report 'acme demo'"]
    assert ce("show", "acme demo").exit_code == 0


def test_elsewhere_the_store_is_named_in_what_to_do_next(site: Path, tmp_path: Path) -> None:
    ship(site, SCRIPTED)
    url = f"sqlite:///{tmp_path / 'my sessions.db'}"
    result = ce("demo", "--framework", "acme", "--turns", "1", "--store", url)
    assert f"  ce sessions --store '{url}'" in result.stdout.splitlines()
    assert (tmp_path / "my sessions.db").exists()


def test_memory_leaves_nothing_to_look_at(site: Path) -> None:
    ship(site, SCRIPTED)
    result = ce("demo", "--framework", "acme", "--turns", "1", "--store", "memory://")
    assert "ce show" not in result.stdout
    assert "--store" in result.stdout


def test_the_json_has_figures_and_questions_and_nothing_else_is_on_stdout(site: Path) -> None:
    ship(site, SCRIPTED)
    result = ce("demo", "--framework", "acme", "--turns", "20", "--json")
    found = json.loads(result.stdout)
    assert found["questions"][1] == {
        "question": "Who is Ann?",
        "expected": "a sailor",
        "answer": "I do not know.",
        "ok": False,
    }
    names = ("found", "asked", "turns", "tokens_with", "tokens_without", "store_url")
    assert [found[name] for name in names] == [1, 2, 20, 1200, 4800, "sqlite:///ce.db"]


def test_without_a_terminal_progress_is_a_few_lines_on_stderr(site: Path) -> None:
    ship(site, SCRIPTED)
    done = ce("demo", "--framework", "acme", "--turns", "40").stderr.splitlines()
    assert done == [f"turn {turn} of 40" for turn in range(0, 41, 4)]


def test_on_a_terminal_progress_is_a_bar(site: Path) -> None:
    ship(site, SCRIPTED)
    done = process(
        "demo", "--framework", "acme", "--turns", "3", FORCE_COLOR="1", PYTHONPATH=str(site)
    )
    assert done.returncode == 0, done.stderr
    assert "3/3" in done.stderr
    assert "━" in done.stderr
    assert "turn 3 of 3" not in done.stderr


def test_a_framework_without_a_demo_names_those_with_one() -> None:
    result = ce("demo", "--framework", "nope")
    assert result.exit_code == 1
    assert "[CONTEXT_ADAPTER_ERROR]" in result.stderr
    assert "langchain" in result.stderr


def test_a_missing_extra_names_the_command_that_installs_it(site: Path) -> None:
    ship(site, "import a_framework_that_nobody_has")
    result = ce("demo", "--framework", "acme", "--json")
    assert result.exit_code == 1
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "CONTEXT_DEPENDENCY_MISSING"
    assert 'pip install "ce-integrations[demo]"' in error["message"]
    assert "a_framework_that_nobody_has" in error["message"]


@pytest.mark.parametrize("body", ["DEMO = 7", "import acme_demo.nothing"])
def test_what_is_no_demo_is_an_error_of_ours(site: Path, body: str) -> None:
    ship(site, body)
    result = ce("demo", "--framework", "acme")
    assert result.exit_code == 1
    assert "error [CONTEXT_ADAPTER_ERROR]" in result.stderr


def test_a_store_that_is_not_understood_is_told_before_anything_runs(site: Path) -> None:
    ship(site, SCRIPTED)
    result = ce("demo", "--framework", "acme", "--store", "mongodb://x")
    assert result.exit_code == 1
    assert "[CONTEXT_STORE_URL_INVALID]" in result.stderr
    assert "turn" not in result.stderr


def test_without_a_name_it_is_the_first_whose_packages_are_here(site: Path) -> None:
    ship(site, SCRIPTED)
    info = site / "acme_demo-1.0.dist-info"
    points = "[ce_integrations.demos]\nacme = acme_demo:DEMO\naardvark = acme_absent:DEMO\n"
    (site / "acme_absent.py").write_text("import a_framework_that_nobody_has", encoding="utf-8")
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    result = ce("demo", "--turns", "2")
    assert result.exit_code == 0, result.output
    assert "ce show 'acme demo'" in result.stdout
    assert re.search(r"^framework +acme$", result.stdout, re.MULTILINE)
