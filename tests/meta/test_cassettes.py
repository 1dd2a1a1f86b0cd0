"""A cassette is used by a test, a test has its cassette, and nothing of a machine or a key is in one."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import openai
import pytest
import yaml
from vcr.errors import CannotOverwriteExistingCassetteException

from ce_integrations.testing.wire import Wire, text
from tests.cassettes.record import APPS
from tests.cassettes.talks import PLANS
from tests.cassettes.tapes import FOLDER, NOWHERE, names, tape


ROOT = Path(__file__).parents[2]
CONVERSATIONS = ROOT / "tests/cassettes/conversations.py"
USERS = {each: ROOT / f"tests/adapters/{each}/test_cassettes.py" for each in APPS}
WAYS = {
    "langchain": {"sync", "async", "live"},
    "llamaindex": {"sync", "async", "live"},
    "autogen": {"async", "live"},
    "crewai": {"sync", "async", "live"},
    "haystack": {"sync", "async", "live"},
    "semantic_kernel": {"async", "live"},
}
INSTALLED = [each for each in APPS if each != "crewai" or find_spec(each)]
"""CrewAI has an environment of its own, and is not in that of the others."""


def conversed(source: str) -> set[str]:
    """The conversations that a file of tests has: what it calls `converse` with."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {ast.literal_eval(c.args[0]) for c in calls if ast.unparse(c.func) == "converse"}


def test_no_orphans() -> None:
    assert conversed(CONVERSATIONS.read_text(encoding="utf-8")) == set(PLANS)
    assert {f"{framework}/{name}" for framework in APPS for name in PLANS} == names()


def test_every_framework_has_every_conversation() -> None:
    expected = {(framework, way): len(PLANS) for framework in INSTALLED for way in WAYS[framework]}
    users = [USERS[framework] for framework in INSTALLED]
    assert collected("live or not full", *users) == expected


def test_a_live_model_is_talked_to_on_request_only() -> None:
    assert collected("not full", USERS["autogen"]) == {("autogen", "async"): len(PLANS)}


def collected(marks: str, *paths: Path) -> Counter[tuple[str, str]]:
    """How many tests there are, by framework and way."""
    command = ("-m", "pytest", "--collect-only", "-q", "-m", marks, *map(str, paths))
    run = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return Counter(re.findall(r"adapters/(\w+)/.*::\w+\[(\w+)\]", run.stdout))


@pytest.mark.parametrize("name", sorted(names()))
def test_nothing_but_what_was_said_is_kept(name: str) -> None:
    kept = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    assert kept["interactions"]
    for each in kept["interactions"]:
        request, response = each["request"], each["response"]
        assert request["uri"] == f"{NOWHERE}/v1/chat/completions"
        assert response["status"]["code"] == 200
        assert {*request["headers"], *response["headers"]} == {"content-type"}


def sent(name: str) -> list[list[tuple[str, str]]]:
    """(role, content) of the messages of each request."""
    kept = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    bodies = [json.loads(each["request"]["body"]) for each in kept["interactions"]]
    return [[(m["role"], m["content"]) for m in body["messages"]] for body in bodies]


ALIKE = [(each, name) for each in ("llamaindex", "haystack", "crewai") for name in PLANS]
"""In the others messages have the name of who speaks, which takes room."""
ALIKE.remove(("crewai", "tools"))  # an agent, which has words of its own


@pytest.mark.parametrize(("framework", "name"), ALIKE)
def test_the_framework_makes_no_difference_to_the_model(framework: str, name: str) -> None:
    assert sent(f"{framework}/{name}") == sent(f"langchain/{name}")


# openai 2 makes it a connection error, openai 3 lets it through.
NOTICED = (openai.APIConnectionError, CannotOverwriteExistingCassetteException)
Say = Callable[[str, str], str | None]


@pytest.fixture
def say() -> Say:
    def ask(base_url: str, words: str) -> str | None:
        with openai.OpenAI(base_url=base_url, api_key="sk-secret", max_retries=0) as client:
            answer = client.chat.completions.create(
                model="wire", messages=[{"role": "user", "content": words}]
            )
        return answer.choices[0].message.content

    return ask


def test_what_is_recorded_is_replayed_without_a_server(say: Say, tmp_path: Path) -> None:
    with Wire(text("好 🙂")) as wire, tape("t", record=True, folder=tmp_path):
        assert say(wire.base_url, "as in (evidence 0123abcd): 你好") == "好 🙂"
    kept = (tmp_path / "t.yaml").read_text(encoding="utf-8")
    assert "你好" in kept
    assert "sk-secret" not in kept
    assert "127.0.0.1" not in kept
    with tape("t", folder=tmp_path) as cassette:
        assert say(f"{NOWHERE}/v1", "as in (evidence ffff0000): 你好") == "好 🙂"
    assert cassette.all_played


def test_a_change_of_what_is_sent_is_noticed(say: Say, tmp_path: Path) -> None:
    with Wire() as wire, tape("t", record=True, folder=tmp_path):
        say(wire.base_url, "one thing")
    with tape("t", folder=tmp_path), pytest.raises(NOTICED) as error:
        say(f"{NOWHERE}/v1", "another thing")
    assert "another thing" in str(error.value.__cause__ or error.value)


def test_recording_again_leaves_nothing_of_before(say: Say, tmp_path: Path) -> None:
    for words in ("before", "after"):
        with Wire() as wire, tape("t", record=True, folder=tmp_path):
            say(wire.base_url, words)
    kept = yaml.safe_load((tmp_path / "t.yaml").read_text(encoding="utf-8"))
    bodies = [json.loads(each["request"]["body"]) for each in kept["interactions"]]
    assert [body["messages"][0]["content"] for body in bodies] == ["after"]
