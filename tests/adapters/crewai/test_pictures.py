"""Pictures and files that agents are given, as a user sees them: on the wire, and in what `ce show` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crewai_files import File, FileBytes, FileUrl, ImageFile, TextFile

from ce_engine import BudgetConfig, HostMessage, RuntimeConfig
from ce_integrations.crewai.mapper import to_schema
from ce_integrations.testing.adapter_pictures import png
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import agent, crew, model, task
from tests.adapters.crewai.contract_apps import Noting
from tests.hosts.cli_host import ce


QUESTION = "图里是什么？ What is it?"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(png(640, 480))
    return path


def mapped(**files: Any) -> HostMessage:
    return to_schema({"role": "user", "content": QUESTION, "files": files})


def known(**files: Any) -> list[tuple[str, str, str, int | None, int | None]]:
    """(kind, format, name, width, height) of each file."""
    return [
        (each.kind, each.format, each.name, each.width, each.height)
        for each in mapped(**files).attachments
    ]


def pictures(wire: Wire) -> list[list[str]]:
    """The addresses of the pictures in each request."""
    return [
        [
            part["image_url"]["url"]
            for message in request.body["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "image_url"
        ]
        for request in wire.requests
    ]


@pytest.mark.req("A-03")
def test_ce_show_says_what_a_crew_was_shown(install: Any, picture: Path) -> None:
    """By the crew's input files; the task has its own."""
    with Wire("A lamp.") as wire:
        who = agent(model(wire, Noting))
        asked = task(who, QUESTION, input_files={"note": ImageFile(source=png(3, 2))})
        target = crew(asked)
        with install(target, store="sqlite:///ce.db", session_id="shown"):
            target.kickoff(input_files={"photo": ImageFile(source=str(picture))})
    told = ce("show", "shown", "--store", "sqlite:///ce.db").stdout
    assert "[image photo.png 640x480, png]" in told
    assert "[image 3x2, png]" in told
    ((first, second),) = pictures(wire)
    assert len(first) > len(second) > 0


@pytest.mark.needs("talks")
def test_a_picture_that_is_left_out_goes_with_its_question(install: Any, picture: Path) -> None:
    """And what goes out keeps its own, though its conversation is cut."""
    budget = BudgetConfig(max_input_tokens=1_400, reserved_reply_tokens=0)
    said: list[Any] = []
    with Wire("I see.") as wire:
        who = agent(model(wire, Noting))
        with install(who, session_id="talk", config=RuntimeConfig(budget=budget)) as installation:
            for n in range(4):
                files = {"photo": ImageFile(source=picture)}
                said.append({"role": "user", "content": f"{n}: {QUESTION}", "files": files})
                said.append({"role": "assistant", "content": str(who.kickoff(said))})
            report = installation.last_report("talk")
    assert report is not None
    assert not report.over_budget
    shown = [len(each) for each in pictures(wire)]
    assert shown[:2] == [1, 2]
    assert 1 <= shown[-1] < 4
    assert [len(each["files"]) for each in said if each["role"] == "user"] == [1] * 4


def test_files_in_every_form_are_known_for_what_they_are(picture: Path) -> None:
    given = {
        "path": ImageFile(source=picture),
        "bytes": File(source=FileBytes(data=png(3, 2), filename="small.png")),
        "text": TextFile(source="第一行。\nSecond line.\n".encode()),
    }
    assert known(**given) == [
        ("image", "png", "photo.png", 640, 480),
        ("image", "png", "small.png", 3, 2),
        ("file", "txt", "", None, None),
    ]
    one, other = mapped(path=given["path"]), mapped(path=given["bytes"])
    assert one.media != other.media
    assert one.media == mapped(path=ImageFile(source=picture)).media


def test_what_stands_elsewhere_is_not_fetched() -> None:
    """The tests have no network: it would be an error."""
    address = FileUrl(url="https://pictures.invalid/photo.png")
    assert known(photo=ImageFile(source=address)) == [("image", "png", "", None, None)]


def test_a_file_that_is_gone_is_the_framework_s_matter(picture: Path) -> None:
    gone = ImageFile(source=picture)
    picture.unlink()
    assert known(photo=gone) == [("image", "png", "photo.png", None, None)]
