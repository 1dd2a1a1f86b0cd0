"""A session that is sealed with a key that is not here costs no other session of its store anything (19 B.9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ce_engine import ContextEngine, RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.errors import EncryptionKeyError
from ce_engine.stores.encryption import VARIABLE
from ce_engine.testing.host import HostApp
from tests.hosts.store_urls import store_url


KEY, LOST = "k1-" * 20, "k2-" * 20
SEALED, OTHER = Scope(session_id="sealed"), Scope(session_id="other", user_id="ben")
KINDS = pytest.mark.parametrize("kind", ["sqlite", "file", "redis", "postgresql"])


def opened(url: str, *keys: str) -> ContextEngine:
    """A store that is taken for away stays so for a minute: no test is faster."""
    store = StoreConfig(deadline_s=20, breaker_s=60, encryption=list(keys) or None)
    return create_context_engine(url, config=RuntimeConfig(store=store))


def fill(url: str) -> None:
    """One session has the one key, the other one the other key, as where a rotation was broken off."""
    for keys, scope in (((KEY,), OTHER), ((LOST, KEY), SEALED)):
        engine = opened(url, *keys)
        HostApp(engine, scope).ask("one?", "1")
        assert engine.sync.flush()
        engine.sync.close()


@KINDS
def test_other_sessions_go_on(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with store_url(kind, tmp_path, monkeypatch) as url:
        fill(url)
        engine = opened(url, KEY)
        sealed, other = HostApp(engine, SEALED), HostApp(engine, OTHER)
        for n in range(2, 4):
            assert sealed.ask(f"{n}?", str(n)).report.degradations != []
            assert other.ask(f"{n}?", str(n)).report.degradations == []
        engine.sync.flush(30)  # false where what is of the sealed session was dropped
        assert engine.sync.flush(30)
        found = engine.sync.get_session(OTHER)
        assert found is not None
        assert [m.content for m in found.session.messages] == ["one?", "1", "2?", "2", "3?", "3"]
        with pytest.raises(EncryptionKeyError):
            engine.sync.get_session(SEALED)
        engine.sync.close()
    assert [VARIABLE in record.getMessage() for record in caplog.records].count(True) == 1
