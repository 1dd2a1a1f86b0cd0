"""`ce rotate-key`: all content under a new key, nothing lost, and it may be stopped half-way."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import (
    EvidenceType,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
    open_store,
)
from ce_engine.errors import EncryptionKeyError
from ce_engine.runtime.waiting import answered
from ce_engine.stores.documents.file import log
from ce_engine.stores.encryption import VARIABLE, AesGcmCipher
from ce_engine.stores.urls import local_path
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce
from tests.unit.audit.forged_store import BOOK
from tests.unit.stores.test_sealed_stores import KEY, OTHER_KEY, WORD, bytes_at, url_of


GONE = Scope(session_id="gone", user_id="u")
TALKS = [Scope(session_id=name, user_id="u") for name in ("one", "two")]
KINDS = pytest.mark.parametrize("kind", ["sqlite", "file"])


def fill(url: str, key: str | None) -> None:
    """Two talks, a deleted one, a rule, and evidence."""
    config = RuntimeConfig(store=StoreConfig(encryption=key, deadline_s=20))
    engine = create_context_engine(url, config=config)
    for scope in (*TALKS, GONE):
        HostApp(engine, scope).ask(f"what does the {WORD} sing?", f"the {WORD} croaks")
        engine.sync.record_evidence(scope, f"{WORD}s are grey", BOOK, EvidenceType.RAG_DOC)
    engine.sync.constraints.create(TALKS[0], f"Speak of the {WORD}.")
    engine.sync.delete_session(GONE)
    engine.sync.flush()
    engine.sync.close()


def statuses(url: str, key: str | list[str] | None) -> list[str]:
    config = RuntimeConfig(store=StoreConfig(encryption=key, deadline_s=20))
    engine = create_context_engine(url, config=config)
    try:
        rules = engine.sync.constraints.list(TALKS[0])
        assert WORD in str(rules)
        for scope in TALKS:
            found = engine.loop.run(engine.store.get_session(scope))
            assert found is not None
            assert WORD in found.session.messages[-1].content
        return [engine.sync.verify(scope).status for scope in (*TALKS, GONE)]
    finally:
        engine.sync.close()


@KINDS
@pytest.mark.parametrize("before", [None, KEY])
def test_all_is_sealed_with_the_new_key(
    kind: str, before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(kind, tmp_path)
    fill(url, before)
    assert (WORD.encode() in bytes_at(url)) == (before is None) or kind == "sqlite"
    monkeypatch.setenv(VARIABLE, f"{OTHER_KEY},{KEY}")
    done = ce("rotate-key", "--store", url)
    assert done.exit_code == 0, done.stderr
    assert AesGcmCipher([OTHER_KEY]).key_id in done.stdout
    again = json.loads(ce("rotate-key", "--store", url, "--json").stdout)
    assert (again["sealed"], again["settings"]) == (0, 0)
    monkeypatch.delenv(VARIABLE)
    assert statuses(url, OTHER_KEY) == ["intact", "intact", "deleted"]
    left = bytes_at(url)
    assert WORD.encode() not in left
    assert AesGcmCipher([KEY]).key_id.encode() not in left


@KINDS
def test_a_run_that_was_stopped_goes_on(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(kind, tmp_path)
    fill(url, KEY)

    async def half() -> None:
        store = open_store(url, encryption=[OTHER_KEY, KEY])
        assert await store.reseal(TALKS[1])  # type: ignore[attr-defined]
        await store.close()

    asyncio.run(half())
    assert statuses(url, [OTHER_KEY, KEY]) == ["intact", "intact", "deleted"]
    monkeypatch.setenv(VARIABLE, f"{OTHER_KEY},{KEY}")
    done = json.loads(ce("rotate-key", "--store", url, "--json").stdout)
    assert done["sealed"] == done["sessions"] - 1 == 2
    monkeypatch.delenv(VARIABLE)
    assert statuses(url, OTHER_KEY) == ["intact", "intact", "deleted"]


@KINDS
def test_without_the_old_key_nothing_is_lost(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(kind, tmp_path)
    fill(url, KEY)
    monkeypatch.setenv(VARIABLE, OTHER_KEY)
    refused = ce("rotate-key", "--store", url)
    assert refused.exit_code == 1
    assert EncryptionKeyError.code in refused.stderr
    assert VARIABLE in refused.stderr
    monkeypatch.delenv(VARIABLE)
    assert ce("rotate-key", "--store", url).exit_code == 1  # no key at all
    assert statuses(url, KEY) == ["intact", "intact", "deleted"]


def test_the_last_look_takes_as_long_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is done by then: a store that is too large for one of the engine's waits is no failure."""
    url = url_of("file", tmp_path)
    fill(url, KEY)
    monkeypatch.setenv(VARIABLE, f"{OTHER_KEY},{KEY}")
    monkeypatch.setattr(answered, "__defaults__", (0.0,))
    done = ce("rotate-key", "--store", url)
    assert done.exit_code == 0, done.stderr


def test_what_cannot_be_read_is_named_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of("file", tmp_path)
    fill(url, KEY)
    [page] = local_path(url).glob("*/u-*/two-*/session.json")
    page.write_text("{", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, f"{OTHER_KEY},{KEY}")
    done = ce("rotate-key", "--store", url)
    assert done.exit_code == 1
    assert "session.json" in done.stderr.replace("\n", "")
    [other] = local_path(url).glob("*/u-*/one-*")
    assert log.key_ids(other) == {AesGcmCipher([OTHER_KEY]).key_id}


SPOILT_VALUES = {
    "no JSON": "'{'",
    "a blob": "X'00ff'",
    "an envelope that does not open": "char(2) || 'seal:AAAA'",
    "an envelope of a key that is nowhere": (
        "char(2) || 'seal:' || '//9DRQEIZGVhZGJlZWZ4eHh4eHh4eHh4eHh4eHh4eHh4'"
    ),
}


@pytest.mark.parametrize("what", SPOILT_VALUES)
def test_what_cannot_be_opened_is_named_and_keeps_no_other_under_the_old_key(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of("sqlite", tmp_path)
    fill(url, KEY)
    engine = create_context_engine(url, config=RuntimeConfig(store=StoreConfig(encryption=KEY)))
    engine.sync.constraints.create(Scope(session_id="s", user_id="anna"), f"A {WORD} is a frog.")
    engine.sync.constraints.create(Scope(session_id="s", user_id="zoe"), f"A {WORD} is a frog.")
    engine.sync.close()
    with closing(sqlite3.connect(local_path(url))) as database, database:
        change = f"UPDATE ce_settings SET value = {SPOILT_VALUES[what]} WHERE user_id = 'anna'"
        assert database.execute(change).rowcount == 1
        database.execute(
            f"UPDATE ce_messages SET content = {SPOILT_VALUES[what]} WHERE seq = 1 AND session = "
            "(SELECT id FROM ce_sessions WHERE session_id = 'one')"
        )
        kept = database.execute("SELECT value FROM ce_settings WHERE user_id = 'anna'").fetchall()
    monkeypatch.setenv(VARIABLE, f"{OTHER_KEY},{KEY}")
    done = ce("rotate-key", "--store", url)
    assert done.exit_code == 1
    said = " ".join(done.stderr.split())
    assert "'anna'" in said
    assert "zoe" not in said
    with closing(sqlite3.connect(local_path(url))) as database:
        now = database.execute("SELECT value FROM ce_settings WHERE user_id = 'anna'").fetchall()
    assert now == kept
    monkeypatch.delenv(VARIABLE)
    config = RuntimeConfig(store=StoreConfig(encryption=OTHER_KEY, deadline_s=20))
    engine = create_context_engine(url, config=config)
    for whose in ("u", "zoe"):
        assert WORD in str(engine.sync.constraints.list(Scope(session_id="s", user_id=whose)))
    assert engine.sync.verify(TALKS[1]).status == "intact"
    engine.sync.close()


def test_a_setting_of_nobodys_name_keeps_no_other_under_the_old_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of("sqlite", tmp_path)
    fill(url, KEY)
    engine = create_context_engine(url, config=RuntimeConfig(store=StoreConfig(encryption=KEY)))
    for whose in ("anna", "zoe"):
        engine.sync.constraints.create(Scope(session_id="s", user_id=whose), f"A {WORD} is a frog.")
    engine.sync.close()
    with closing(sqlite3.connect(local_path(url))) as database, database:
        spelled = "UPDATE ce_settings SET user_id = ? WHERE user_id = 'anna'"
        assert database.execute(spelled, ['\x02json:"anna"']).rowcount == 1
    monkeypatch.setenv(VARIABLE, f"{OTHER_KEY},{KEY}")
    done = ce("rotate-key", "--store", url)
    assert done.exit_code == 1
    assert "anna" in done.stderr
    monkeypatch.delenv(VARIABLE)
    config = RuntimeConfig(store=StoreConfig(encryption=OTHER_KEY, deadline_s=20))
    engine = create_context_engine(url, config=config)
    for whose in ("u", "zoe"):
        assert WORD in str(engine.sync.constraints.list(Scope(session_id="s", user_id=whose)))
    engine.sync.close()
