"""`ce import`: files of other apps become sessions, and what is wrong in one is told with its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.cli_host import ce, url_of


CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"n": 2}'}}
SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "它在哪里?", "created_at": 1_700_000_000, "name": "Ann"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "here"}]},
    {"role": "assistant", "content": "It is here; write to ann@example.com."},
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path / "ce.db")


def written(folder: Path, data: Any, name: str = "talk.json") -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def shown(url: str, session: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(ce("show", session, "--json", "--store", url).stdout)
    return made


@pytest.mark.parametrize(
    "data", [SAID, {"messages": SAID, "model": "gpt-4o"}], ids=["list", "object"]
)
def test_openai_s_messages_become_a_session_and_again_nothing(
    tmp_path: Path, url: str, data: Any
) -> None:
    file = written(tmp_path, data)
    first, again = (ce("import", file, "--store", url) for _ in range(2))
    assert first.stdout == "talk: 4 new, 0 known, 1 of the system (not stored)\n"
    assert again.stdout == "talk: 0 new, 4 known, 1 of the system (not stored)\n"
    session = shown(url, "talk")["session"]
    assert [m["content"] for m in session["messages"]] == [
        "它在哪里?",
        "",
        "here",
        "It is here; write to [EMAIL_1].",
    ]
    assert session["messages"][0]["at"] == "2023-11-14T22:13:20.000Z"
    assert session["messages"][0]["author"]["id"] == "Ann"
    assert session["messages"][1]["tool_calls"][0]["args"] == {"n": 2}
    assert session["tool_state"]["tool_calls"][0]["tool"] == "find"


def test_whose_it_is_and_what_came_of_it_as_json(tmp_path: Path, url: str) -> None:
    file = written(tmp_path, [*SAID, {"role": "tool", "tool_call_id": "gone", "content": "?"}])
    options = ("--session", "s", "--user", "u", "--account", "a", "--format", "openai")
    done = ce("import", file, *options, "--json", "--store", url)
    (told,) = json.loads(done.stdout)
    assert (told["session_id"], told["new"], told["system"]) == ("s", 4, 1)
    assert told["repairs"][0].startswith("message 5 is left out: the result of tool call 'gone'")
    (info,) = json.loads(ce("sessions", "--account", "a", "--json", "--store", url).stdout)
    assert (info["session_id"], info["user_id"], info["frameworks"]) == ("s", "u", ["openai"])


def test_a_conversation_a_line(tmp_path: Path, url: str) -> None:
    lines = "\n".join(json.dumps({"messages": SAID[1:2]}) for _ in range(2))
    file = written(tmp_path, lines, "many.jsonl")
    done = ce("import", file, "--store", url)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["many-1", "many-2"]
    refused = ce("import", file, "--session", "s", "--store", url)
    assert "has 2 conversations" in refused.stderr
    assert "leave it out" in refused.stderr
    file = written(tmp_path, "\n".join(map(json.dumps, SAID)), "one.jsonl")
    assert ce("import", file, "--store", url).stdout.startswith("one: 4 new")


def test_a_store_of_llamaindex_has_a_session_a_key(tmp_path: Path, url: str) -> None:
    said = [{"role": "user", "blocks": [{"block_type": "text", "text": "hi"}]}]
    file = written(tmp_path, {"store": {"张伟": said, "b": said}, "class_name": "SimpleChatStore"})
    assert [
        line.split(":")[0] for line in ce("import", file, "--store", url).stdout.splitlines()
    ] == [
        "张伟",
        "b",
    ]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ('[{"role": "user",\n "content": }]', ["line 2, column 13", "Expected JSON"]),
        ('{"role": "user", "content": "x"}\n{"role": ', ["line 2, column"]),
        ("", ["line 1, column 1"]),
        ({"talk": 1}, ["none of the known forms", "expected a list of messages"]),
        ([{"role": "boss", "content": "x"}], ["messages[0].role: found str, expected one of ai"]),
        (
            [*SAID, {"role": "user", "content": 5}],
            ["messages[5].content: found int, expected a text"],
        ),
        (
            [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}],
            ["messages[0].tool_calls[0].function.name: found nothing, expected the name"],
        ),
        (
            [{"role": "user", "content": "x", "at": "yesterday"}],
            ["messages[0].at is no time", "write it as"],
        ),
        (
            [{"role": "user", "content": "x", "timestamp": 10**400}],
            ["messages[0].timestamp: found int, expected a time"],
        ),
        (
            [{"role": "user", "content": "x", "created_at": "9999-12-31T23:59:59-23:59"}],
            ["messages[0].at is no time", "write it as"],
        ),
        ([{"type": "human", "data": 5}], ["messages[0].data: found int", "messages_to_dict"]),
        (
            [{"lc": 1, "id": ["x", "RemoveMessage"], "kwargs": {}}],
            ["messages[0].id: found list, expected a message of a human"],
        ),
        (
            [{"role": "user", "content": ["hi", {"type": ["text"]}]}],
            ["messages[0].content[1].type: found list, expected a text"],
        ),
        (
            [{"type": "ai", "data": {"content": [{"type": {"a": 1}, "id": "1", "name": "n"}]}}],
            ["messages[0].data.content[0].type: found dict, expected a text"],
        ),
        (
            [{"type": "ai", "data": {"content": [{"type": "tool_use", "id": {}, "name": "n"}]}}],
            ["messages[0].data.content", "expected a text"],
        ),
        (
            [
                {
                    "type": "ai",
                    "data": {"content": "", "tool_calls": [{"name": "n", "id": {"a": 1}}]},
                }
            ],
            ["messages[0].data.tool_calls[0].id: found dict, expected a text"],
        ),
        ({"store": {"k": 5}}, ["store.k: found int, expected a list of messages"]),
        ([{"role": "system", "content": "x"}], ["needs messages of a conversation"]),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_nothing_is_stored(
    tmp_path: Path, url: str, data: Any, told: list[str]
) -> None:
    done = ce("import", written(tmp_path, data), "--store", url)
    assert done.exit_code == 1
    assert "Traceback" not in done.output
    for words in told:
        assert words in done.stderr
    assert "x" not in done.stderr.partition("]: ")[2].split("'")[0]  # no value
    if (tmp_path / "ce.db").exists():
        assert json.loads(ce("sessions", "--json", "--store", url).stdout) == []


def test_a_store_that_ends_is_refused(tmp_path: Path) -> None:
    done = ce("import", written(tmp_path, SAID), "--store", "memory://")
    assert "name a store that stays" in done.stderr


def test_no_framework_is_imported() -> None:
    code = (
        "import sys; from importlib.metadata import entry_points as e; "
        "[p.load() for p in e(group='ce_integrations.histories')]; "
        "print([n for n in sys.modules if n.split('.')[0] in ('langchain_core', 'llama_index')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
