"""The contract of `ports.Store` over every store that comes along, and how `open_store` picks one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ce_engine.config import RedactionConfig, RuntimeConfig, StoreConfig
from ce_engine.errors import StoreUrlError
from ce_engine.ports.store import Store
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, Standing, Versions
from ce_engine.stores import open_store
from ce_engine.stores.documents.file import FileStore, shelf
from ce_engine.stores.documents.memory import MemoryStore
from ce_engine.stores.postgres_url import place_of
from ce_engine.stores.tables import SqlStore
from ce_engine.stores.urls import folder_path, masked, sqlite_path
from ce_engine.testing import StoreContract
from ce_engine.testing.samples import SCOPE
from ce_engine.testing.store_settings import SettingsContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = MemoryStore()
        yield store
        await store.close()

    def bytes_of(self, store: Store) -> bytes:
        assert isinstance(store, MemoryStore)
        return repr((store._sessions, store._settings)).encode()


class _WithoutMacs(MemoryStore):
    """As a store of somebody's own is, which says of each setting that nothing says whose it is."""

    async def get_setting(self, scope: Scope, name: str) -> Setting | None:
        found = await super().get_setting(scope, name)
        return found and found._replace(standing=Standing.UNVERIFIED)


class TestStoreWithoutMacs(SettingsContract):
    """The contract leaves what a store says of its settings to the store."""

    @pytest.fixture
    async def store(self) -> Store:
        return _WithoutMacs()

    def bytes_of(self, store: Store) -> bytes:
        assert isinstance(store, MemoryStore)
        return repr(store._settings).encode()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        # Other tests share the machine: a lock may take longer to get than in a quiet process.
        store = SqlStore(f"sqlite:///{tmp_path / 'ce.db'}", lock_timeout_s=20)
        yield store
        await store.close()

    def bytes_of(self, store: Store) -> bytes:
        files = sqlite_path(store.url).parent.glob("ce.db*")
        return b"".join(file.read_bytes() for file in files)


class TestFileStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = FileStore((tmp_path / "sessions").as_uri(), lock_timeout_s=20)
        yield store
        await store.close()

    def bytes_of(self, store: Store) -> bytes:
        return b"".join(f.read_bytes() for f in folder_path(store.url).rglob("*") if f.is_file())


def files_here() -> list[str]:
    return [path.name for path in Path.cwd().iterdir()]


class TestFileStoreThatForgets(TestFileStore):
    """What is read comes from the files, all of it."""

    @pytest.fixture
    async def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
        monkeypatch.setattr(shelf, "_KEPT_SESSIONS", 0)
        store = FileStore((tmp_path / "sessions").as_uri(), lock_timeout_s=20)
        yield store
        await store.close()


LOCAL = pytest.mark.parametrize("url", ["sqlite:///some.db", "file:some"])


@LOCAL
def test_opening_touches_no_file(url: str) -> None:
    store = open_store(url)
    assert store.url == url
    assert files_here() == []


@LOCAL
async def test_reading_makes_no_file(url: str) -> None:
    store = open_store(url)
    assert await store.list_sessions() == []
    assert await store.version(SCOPE) == Versions()
    assert files_here() == []
    await store.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:some", "some"),
        ("file:./some/", "some"),
        ("FILE:some/folder", "some/folder"),
        ("file:%E4%BC%9A%E8%AF%9D%20a%23b", "会话 a#b"),
        ("file:会话", "会话"),
        ("file:///some/folder", "/some/folder"),
        ("file:/some/folder", "/some/folder"),
        ("file:////some/folder/", "/some/folder"),
    ],
)
def test_a_file_url_is_a_folder(tmp_path: Path, url: str, expected: str) -> None:
    assert folder_path(url) == tmp_path / expected


def test_a_relative_file_is_found_from_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("sqlite:///ce.db")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert store.secret
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["ce.db.key"]


@pytest.mark.parametrize(
    ("variable", "url", "expected"),
    [
        ("", None, "sqlite:///ce.db"),
        ("memory://", None, "memory://"),
        ("", "memory:///", "memory://"),
        ("memory://", "sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("", "SQLite:///x.db", "SQLite:///x.db"),
        ("file:sessions", None, "file:sessions"),
    ],
)
def test_the_url_wins_then_the_variable_then_the_default(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str | None, expected: str
) -> None:
    monkeypatch.setenv("CE_STORE_URL", variable)
    assert open_store(url).url == expected


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("sqlite://", "Write sqlite:///ce.db"),
        ("sqlite:///", "Write sqlite:///ce.db"),
        ("sqlite:////folder/", "Write sqlite:///ce.db"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://ce.db", "Write sqlite:///ce.db"),
        ("sqlite:///ce.db?mode=ro", "options after '?'"),
        ("memory://shared", "takes no path"),
        ("ce.db", "write sqlite:///ce.db"),
        ("mongodb://host/db", "Known here: memory://, sqlite:///"),
        ("file://host/folder", "Write file:host/folder for a folder from here"),
        ("file://", "Write file:sessions"),
        ("file:", "Write file:sessions"),
        ("file:///", "Write file:sessions"),
        ("file:..", "Write file:sessions"),
        ("file:a%00b", "Write file:sessions"),
        ("file:sessions?mode=ro", "options after '?'"),
        ("postgresql+asyncpg://host/db", "Write postgresql+psycopg://"),
        ("postgresql://host", "names no database"),
        ("postgresql://me:p@ss@host/db", "write %40 for it"),
        ("postgresql://me:p/a?s@s@host/db", "write %40 for it"),
    ],
)
def test_a_url_that_is_not_understood_names_the_cure(url: str, cure: str) -> None:
    with pytest.raises(StoreUrlError) as error:
        open_store(url)
    assert cure in str(error.value)
    assert url.partition("://")[0] in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://me:pass-word@host/db",
        "redis://host?password=pass-word",
        "rediss://me@host/0?sslpassword=pass-word&prefix=x",
        "me:pass-word@host/db",
        "postgres:me:pass-word@host/db",
        "redis:/me:pass-word@host/0",
    ],
)
def test_a_password_is_not_repeated(url: str) -> None:
    with pytest.raises(StoreUrlError) as error:
        open_store(url)
    assert "pass-word" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///db?host=/run&password=pass-word",
        "postgresql:///db?oauth_client_secret=pass-word&scram_client_key=pass-word",
        "redis:///0?password=pass-word",
        "redis://pass-word@host/0",
        "rediss://pass-word@host:6380/0?prefix=a",
        "redis://host/0?%70assword=pass-word",
        "redis://host/0?x=1;password=pass-word",
        "redis://host/0?prefix=a;password=pass-word",
        *(
            f"redis://host/0?prefix=a&{name}=pass-word"
            for name in ("pwd", "auth", "token", "credential")
        ),
    ],
)
def test_a_password_without_a_host_is_masked(url: str) -> None:
    assert "pass-word" not in masked(url)


def test_a_place_is_named_without_half_of_a_password() -> None:
    assert place_of("postgresql://me:pass?word@host/db?sslmode=off") == "postgresql://***"
    assert place_of("postgresql://host/db?application_name=a@b") == "postgresql://host/db"


@pytest.mark.parametrize("more", ["", "?sslmode=disable", "?bad=1", "#frag"])
@pytest.mark.parametrize("server", ["host:1/db", "host:1", "host:1/0", "host:port/0", "/0", ""])
@pytest.mark.parametrize(
    "scheme", ["postgresql", "postgres", "redis", "sqlite", "file", "memory", "mysql"]
)
def test_a_password_that_was_not_escaped_is_in_no_message(
    scheme: str, server: str, more: str
) -> None:
    shapes = [
        "{}",
        "{}/x",
        "x/{}",
        "x?{}",
        "{}?x=1",
        "x@{}",
        "x#{}",
        "x/?{}",
        "x/y?z@{}@",
        "x/{}?q",
        "[{}",
        "5/{}?q",
    ]
    for shape in shapes:
        url = f"{scheme}://me:{shape.format('Hunter2')}@{server}{more}"
        shown = [masked(url), place_of(url)]
        try:
            store = open_store(url)
        except StoreUrlError as error:
            shown += [str(error), str(error.__cause__)]
        else:
            shown += [store.url, repr(store)]
        assert "Hunter2" not in str(shown), url


def test_a_configuration_shows_neither_key_nor_password() -> None:
    """It stands in tracebacks and in logs of the app."""
    url = "postgresql+psycopg://me:pass-word@host/db"
    config = RuntimeConfig(
        store=StoreConfig(encryption="key-of-secrets" * 4),
        redaction=RedactionConfig(mode="dual_store", originals_url=url),
    )
    assert "pass-word" not in f"{config} {config!r}"
    assert "key-of-secrets" not in f"{config} {config!r} {config.model_dump()}"
