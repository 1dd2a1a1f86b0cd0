"""The demo's documents and its tool: real metadata of this machine, bounded and the same on every run."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from ce_integrations.demo.documents import (
    CHUNK_CHARS,
    LOOKUP_BYTES,
    MAX_CHUNKS,
    Package,
    WordIndex,
    chunks,
    clean,
    installed_packages,
    lookup_text,
)


PACKAGES = installed_packages()

README = """\
# Kites

[![Build](https://ci/badge.svg)](https://ci) <img src="x.png">

Kites *fly* **high**, see [the manual](https://kites/manual)
and `the notes <https://kites/notes>`_ or `pip`.

```python
import kites
```

.. image:: kites.png
   :alt: a kite

Install
=======

Use pip.\r
[the manual]: https://kites/manual
"""


def package(name: str = "kites", description: str = "", summary: str = "Fly kites") -> Package:
    return Package(name, "1.2", summary, "MIT", ("wind>=2",), ("Home: https://kites",), description)


def test_what_is_installed_is_told_as_it_is() -> None:
    core = PACKAGES["pydantic-core"]
    assert core.version == version("pydantic-core")
    assert core.licence == "MIT"
    assert any(line.startswith("typing-extensions") for line in core.requires)
    assert not any("extra ==" in line for line in core.requires)
    assert any("https://" in url for url in core.urls)
    assert core.source == f"pkg:pypi/pydantic-core@{core.version}"


def test_the_order_is_the_same_on_every_run() -> None:
    assert list(PACKAGES) == sorted(PACKAGES)
    again = installed_packages()
    assert list(chunks(PACKAGES.values())) == list(chunks(again.values()))


def write_metadata(folder: Path, name: str, **fields: str) -> None:
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    lines = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{lines}\nA long\nstory.\n")


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": "MIT OR Apache-2.0", "License": "see file"}, "MIT OR Apache-2.0"),
        ({"License": "BSD"}, "BSD"),
        ({"License": "Permission is hereby granted, " * 9}, "not stated"),
        (
            {"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: MIT License"},
            "MIT License",
        ),
        ({}, "not stated"),
    ],
)
def test_licences_are_short_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], licence: str
) -> None:
    write_metadata(tmp_path, "kites", Name="kites", Version="1.2", **fields)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = installed_packages()["kites"]
    assert (found.licence, found.description) == (licence, "A long story.")


def test_broken_and_shadowed_installations_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path / "first", "ki_tes", Name="ki_tes", Version="2")
    write_metadata(tmp_path / "second", "ki_tes", Name="Ki.tes", Version="1")
    (tmp_path / "second" / "broken.dist-info").mkdir()
    for folder in ("second", "first"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    assert installed_packages()["ki-tes"].version == "2"


def test_descriptions_are_plain_text() -> None:
    assert (
        clean(README)
        == "Kites\n\nKites *fly* high, see the manual and the notes or `pip`.\n\nInstall\n\nUse pip."
    )
    # Nothing of a real page is lost but its decoration.
    assert "structured concurrency" in PACKAGES["anyio"].description


@pytest.mark.parametrize("name", ["pydantic-core", "Pydantic_Core"])
def test_a_lookup_says_what_people_ask_for(name: str) -> None:
    text = lookup_text(PACKAGES, name)
    for wanted in (version("pydantic-core"), "MIT", "typing-extensions", "https://", "许可证"):
        assert wanted in text


def test_lookups_are_bounded() -> None:
    texts = [lookup_text(PACKAGES, name) for name in PACKAGES]
    assert max(len(text.encode()) for text in texts) <= LOOKUP_BYTES
    chinese = package(description="风筝飞得很高。" * 200)
    assert len(lookup_text({"kites": chinese}, "kites").encode()) <= LOOKUP_BYTES


def test_an_unknown_distribution_is_named_with_a_cure() -> None:
    text = lookup_text({"kites": package()}, "kite")
    assert text.startswith("Error: no distribution named 'kite' is installed here.")
    assert "'kites'" in text


def test_chunks_are_small_few_and_traceable() -> None:
    found = list(chunks(PACKAGES.values()))
    assert max(len(chunk.text) for chunk in found) <= CHUNK_CHARS
    assert len({chunk.id for chunk in found}) == len(found)
    assert {chunk.metadata["chunk"] for chunk in found} <= set(range(MAX_CHUNKS))
    for chunk in found:
        source = str(chunk.metadata["source"])
        assert re.fullmatch(r"pkg:pypi/[a-z0-9-]+@\S+", source)
        assert source.endswith(f"@{chunk.metadata['doc_version']}")


def test_chunks_hold_the_whole_text() -> None:
    text = " ".join(f"word{number}" for number in range(200)) + "\n\n" + "x" * 900
    found = list(chunks([package(description=text)]))
    told = " ".join(chunk.text for chunk in found).split()
    assert told[:3] == ["kites:", "Fly", "kites"]
    assert told[3:203] == [f"word{number}" for number in range(200)]
    assert told[203:] == ["x" * CHUNK_CHARS]


BIRDS = [
    package("kites", "About the wind and the weather.", "Fly kites"),
    package("owls", "About the night and the weather.", "Watch owls"),
    package("herons", "Owls and kites are birds, too. 白鹭在水边。", "Count herons"),
]


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("Are there birds in this weather?", ["herons", "kites"]),
        ("What about `owls`?", ["owls", "herons"]),
        ("白鹭", ["herons"]),
        ("submarines", []),
        ("night", ["owls"]),
    ],
)
def test_chunks_are_found_by_words_rare_ones_first(query: str, titles: list[str]) -> None:
    found = WordIndex(chunks(BIRDS)).search(query, 2)
    assert [hit.chunk.metadata["title"] for hit in found] == titles
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


def test_a_rare_word_scores_more_than_a_common_one() -> None:
    index = WordIndex(chunks(BIRDS))
    (rare,), (common, other) = index.search("night"), index.search("weather")
    assert rare.score > common.score == other.score


def test_no_more_is_found_than_is_asked_for() -> None:
    index = WordIndex(chunks(PACKAGES.values()))
    assert [len(index.search("python library", limit)) for limit in (0, 1, 7)] == [0, 1, 7]
    assert index.search("python library") == index.search("python library", 7)[:3]
