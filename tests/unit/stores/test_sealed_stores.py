"""Content that is sealed at rest: the whole contract holds, and no byte of it is in the store's files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import (
    Evidence,
    EvidenceSource,
    EvidenceType,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    Task,
    create_context_engine,
    open_store,
)
from ce_engine.errors import ConfigError, EncryptionKeyError, StoreUnavailableError
from ce_engine.ports.encryption import ContentCipher
from ce_engine.ports.store import Store
from ce_engine.stores.encryption import VARIABLE, AesGcmCipher, cipher_of
from ce_engine.stores.urls import local_path
from ce_engine.testing import StoreContract
from ce_engine.testing.host import HostApp
from ce_engine.testing.samples import SCOPE, evidence
from tests.hosts import redis_host


KEY, OTHER_KEY = "k1-" * 20, "k2-" * 20
CANARY = "the heron sings at dawn"
WORD = "heron"
KINDS = pytest.mark.parametrize("kind", ["sqlite", "file"])


def url_of(kind: str, folder: Path, name: str = "ce") -> str:
    return f"sqlite:///{folder / name}.db" if kind == "sqlite" else (folder / name).as_uri()


def bytes_at(url: str) -> bytes:
    place = local_path(url)
    files = place.parent.glob(f"{place.name}*") if place.is_file() else place.rglob("*")
    return b"".join(file.read_bytes() for file in files if file.is_file())


class _Sealed(StoreContract):
    kind = ""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = open_store(url_of(self.kind, tmp_path), encryption=KEY)
        store._timeout_s = 20  # type: ignore[attr-defined]
        yield store
        await store.close()

    def bytes_of(self, store: Store) -> bytes:
        return bytes_at(store.url)


class TestSealedSqliteStore(_Sealed):
    kind = "sqlite"


class TestSealedFileStore(_Sealed):
    kind = "file"


class TestSealedRedisStore(StoreContract):
    @pytest.fixture
    async def store(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
        monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
        url = redis_host.fresh_url()
        store = open_store(url, encryption=KEY)
        store._timeout_s = 20  # type: ignore[attr-defined]
        yield store
        await store.close()
        redis_host.forget(url)

    def bytes_of(self, store: Store) -> bytes:
        return redis_host.bytes_of(store.url)


async def fill(store: Store) -> None:
    """The canary in everything that has content."""
    source = EvidenceSource(kind=SourceKind.TOOL, name="birds")
    await store.append_messages(SCOPE, [Message(role=Role.USER, content=CANARY)])
    await store.put_evidence(SCOPE, evidence("e1", CANARY))
    await store.put_evidence(
        SCOPE,
        Evidence(
            evidence_id="e2",
            type=EvidenceType.TOOL_RESULT,
            source=source,
            content="short",
            metadata={"note": CANARY},
        ),
    )
    await store.upsert_tasks(SCOPE, [Task(task_id="t1", name=CANARY)])
    await store.put_setting(SCOPE, "constraints", {"text": CANARY})


@KINDS
async def test_no_byte_of_content_is_in_the_files(kind: str, tmp_path: Path) -> None:
    url = url_of(kind, tmp_path)
    store = open_store(url, encryption=KEY)
    await fill(store)
    assert WORD.encode() not in bytes_at(url)  # with the write-ahead log
    await store.close()
    assert WORD.encode() not in bytes_at(url)
    store = open_store(url, encryption=KEY)
    found = await store.get_session(SCOPE)
    assert found is not None
    assert found.session.messages[0].content == CANARY
    assert found.evidences["e1"].content == CANARY
    assert found.evidences["e2"].metadata["note"] == CANARY
    assert found.session.task_state.todo_list.tasks[0].name == CANARY
    setting = await store.get_setting(Scope(session_id="another"), "constraints")
    assert setting is None or setting.value == {"text": CANARY}
    mine = await store.get_setting(SCOPE, "constraints")
    assert mine is not None
    assert mine.value == {"text": CANARY}
    await store.close()


async def test_no_byte_of_content_is_at_a_redis_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    url = redis_host.fresh_url()
    store = open_store(url, encryption=KEY)
    await fill(store)
    assert WORD.encode() not in redis_host.bytes_of(url)
    await store.close()
    store = open_store(url, encryption=KEY)
    found, mine = await store.get_session(SCOPE), await store.get_setting(SCOPE, "constraints")
    assert found is not None
    assert found.session.messages[0].content == CANARY
    assert mine is not None
    assert mine.value == {"text": CANARY}
    await store.close()
    redis_host.forget(url)


@KINDS
@pytest.mark.parametrize("key", [None, OTHER_KEY])
async def test_a_missing_key_is_named_and_loses_nothing(
    kind: str, key: str | None, tmp_path: Path
) -> None:
    url = url_of(kind, tmp_path)
    store = open_store(url, encryption=KEY)
    await fill(store)
    await store.close()
    before = bytes_at(url)
    store = open_store(url, encryption=key)
    with pytest.raises(EncryptionKeyError, match=VARIABLE) as said:
        await store.get_session(SCOPE)
    assert AesGcmCipher([KEY]).key_id in str(said.value)
    assert KEY not in str(said.value)
    with pytest.raises(EncryptionKeyError):  # else it could never be read with the rest
        await store.append_messages(SCOPE, [Message(role=Role.USER, content="in the open")])
    with pytest.raises(EncryptionKeyError):
        await store.put_setting(SCOPE, "constraints", {"text": "in the open"})
    await store.close()
    assert bytes_at(url) == before
    store = open_store(url, encryption=KEY)
    found = await store.get_session(SCOPE)
    await store.close()
    assert found is not None
    assert [message.content for message in found.session.messages] == [CANARY]


@KINDS
async def test_what_was_stored_in_the_open_is_read_with_a_key(kind: str, tmp_path: Path) -> None:
    url = url_of(kind, tmp_path)
    store = open_store(url)
    await fill(store)
    await store.close()
    store = open_store(url, encryption=KEY)
    await store.append_messages(SCOPE, [Message(role=Role.USER, content="now in secret")])
    found = await store.get_session(SCOPE)
    await store.close()
    assert found is not None
    assert [m.content for m in found.session.messages] == [CANARY, "now in secret"]
    assert b"now in secret" not in bytes_at(url)


def test_the_environment_has_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{OTHER_KEY}, {KEY}")
    both = cipher_of()
    assert both is not None
    assert both.key_id == AesGcmCipher([OTHER_KEY]).key_id
    sealed = AesGcmCipher([KEY]).encrypt(b"x", b"here")
    assert both.decrypt(AesGcmCipher([KEY]).key_id, sealed, b"here") == b"x"
    monkeypatch.delenv(VARIABLE)
    assert cipher_of() is None


def test_a_key_may_be_a_callable_or_a_cipher() -> None:
    assert isinstance(cipher_of(lambda: KEY), AesGcmCipher)
    assert isinstance(cipher_of(lambda: [KEY, OTHER_KEY]), AesGcmCipher)
    cipher = AesGcmCipher([KEY])
    assert isinstance(cipher, ContentCipher)
    assert cipher_of(cipher) is cipher


@pytest.mark.parametrize("bad", ["short", [], 17, lambda: None])
def test_what_is_no_key_is_refused_without_being_printed(bad: object) -> None:
    with pytest.raises(ConfigError) as said:
        cipher_of(bad)
    assert "'short'" not in str(said.value)


def test_a_configuration_does_not_print_its_key() -> None:
    config = RuntimeConfig(store=StoreConfig(encryption=KEY))
    assert KEY not in repr(config)
    assert KEY not in config.model_dump_json()


def test_what_is_sealed_opens_nowhere_else() -> None:
    cipher = AesGcmCipher([KEY])
    sealed = cipher.encrypt(b"x", b"here")
    assert sealed != cipher.encrypt(b"x", b"here")
    with pytest.raises(ValueError, match="not what was stored"):
        cipher.decrypt(cipher.key_id, sealed, b"there")


async def test_pasted_content_does_not_open_in_another_session(tmp_path: Path) -> None:
    url = url_of("sqlite", tmp_path)
    store = open_store(url, encryption=KEY)
    other = Scope(session_id="other", user_id="mallory")
    for scope in (SCOPE, other):
        await store.append_messages(scope, [Message(role=Role.USER, content=scope.user_id + "!")])
    await store.close()
    with closing(sqlite3.connect(local_path(url))) as connection, connection:
        connection.execute(
            "UPDATE ce_messages SET content = (SELECT content FROM ce_messages WHERE session = 1) "
            "WHERE session = 2"
        )
    store = open_store(url, encryption=KEY)
    assert await store.get_session(SCOPE) is not None
    with pytest.raises(StoreUnavailableError, match="damaged"):
        await store.get_session(other)
    await store.close()


def test_an_engine_takes_the_key_of_its_configuration(tmp_path: Path) -> None:
    url = url_of("sqlite", tmp_path)
    config = RuntimeConfig(store=StoreConfig(encryption=KEY, deadline_s=20))
    engine = create_context_engine(url, config=config)
    HostApp(engine, Scope(session_id="s")).ask(CANARY, f"yes, {CANARY}")
    engine.sync.flush()
    report = engine.sync.verify("s")
    engine.sync.close()
    assert report.status == "intact"
    assert WORD.encode() not in bytes_at(url)
    with pytest.raises(ConfigError, match="open_store"):
        create_context_engine(open_store(url), config=config)


@KINDS
async def test_a_mark_that_somebody_opened_lets_nobody_write_without_the_key(
    kind: str, tmp_path: Path
) -> None:
    """It is what keeps a process without the key from writing in the open; its MACs are over what it says."""
    url = url_of(kind, tmp_path)
    store = open_store(url, encryption=KEY)
    await fill(store)
    await store.close()
    if kind == "sqlite":
        with closing(sqlite3.connect(local_path(url))) as database, database:
            database.execute("UPDATE ce_settings SET value = 'true' WHERE account_id = 'ce:store'")
    else:
        files = local_path(url).glob("*/*/settings.json")
        [file] = [file for file in files if "ce:store" in file.read_text("utf-8")]
        document = json.loads(file.read_text("utf-8"))
        document["settings"][0]["value"] = True
        file.write_text(json.dumps(document), "utf-8")
    store = open_store(url)
    with pytest.raises(EncryptionKeyError, match="stands in the open"):
        await store.append_messages(SCOPE, [Message(role=Role.USER, content="in the open")])
    with pytest.raises(EncryptionKeyError, match="stands in the open"):
        await store.put_setting(SCOPE, "constraints", {"text": "in the open"})
    await store.close()
    assert b"in the open" not in bytes_at(url)
    store = open_store(url, encryption=KEY)
    await store.append_messages(SCOPE, [Message(role=Role.USER, content="with the key")])
    await store.close()


@KINDS
def test_an_app_without_the_key_goes_on_and_writes_nothing_in_the_open(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CE_GUARD")
    url = url_of(kind, tmp_path)
    with_key = RuntimeConfig(store=StoreConfig(encryption=KEY, deadline_s=20))
    engine = create_context_engine(url, config=with_key)
    HostApp(engine, Scope(session_id="s")).ask(CANARY, "yes")
    engine.sync.close()
    engine = create_context_engine(url)
    HostApp(engine, Scope(session_id="s")).ask("a word in the open?", "spoken in the open")
    engine.sync.flush(0.5)
    assert b"in the open" not in bytes_at(url)
    keyless, engine = engine, create_context_engine(url, config=with_key)
    found = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert found is not None
    assert found.session.messages[0].content == CANARY
    assert engine.sync.verify("s").status == "intact"
    engine.sync.close()
    keyless.sync.close(0.1)
