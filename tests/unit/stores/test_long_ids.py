"""The longest ids that are taken: each store takes them, in the worst case that there is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ce_engine import (
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    StoreConfig,
    create_context_engine,
    open_store,
)
from ce_engine.schema.scope import MOST_ID_BYTES
from ce_engine.testing.host import HostApp
from ce_engine.testing.samples import evidence
from tests.hosts.cli_host import ce
from tests.hosts.store_urls import KINDS, store_url


NAMES = ("session_id", "user_id", "account_id", "project_id", "agent_id", "trace_id")
_NOISE = random.Random(3)


def noise() -> str:
    """An id of as many bytes as may be; no index makes it any smaller."""
    text = "".join(chr(_NOISE.randrange(0x4E00, 0x9FA5)) for _ in range(MOST_ID_BYTES // 3))
    return text + "i" * (MOST_ID_BYTES - len(text.encode()))


@pytest.mark.req("A-07", "A-13")
@pytest.mark.parametrize("kind", KINDS)
def test_every_store_takes_the_longest_ids(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whose = Scope(**{name: noise() for name in NAMES})
    with store_url(kind, tmp_path, monkeypatch) as url:
        engine = create_context_engine(url, config=RuntimeConfig(store=StoreConfig(deadline_s=30)))
        HostApp(engine, whose).ask("What is it?", "It is here.")
        engine.sync.constraints.create(whose, "Be brief.")
        assert engine.sync.flush(30)
        document = engine.sync.get_session(whose)
        rules = engine.sync.constraints.list(whose)
        engine.sync.close()
    assert document is not None
    assert [each.content for each in document.session.messages] == ["What is it?", "It is here."]
    assert [each.text for each in rules] == ["Be brief."]


@pytest.mark.req("A-13", "A-25")
@pytest.mark.parametrize("name", NAMES)
def test_a_longer_id_is_refused_with_the_cure(name: str) -> None:
    with pytest.raises(SchemaValidationError, match=f"{name} has 513 bytes.*most are 512.*sha256"):
        Scope(**{"session_id": "s", name: "i" * 513})


@pytest.mark.req("A-30")
def test_what_an_older_release_stored_under_a_longer_id_goes(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/ce.db")
    engine = create_context_engine(store, config=RuntimeConfig(store=StoreConfig(deadline_s=30)))
    whose = Scope.of_stored("", "ann", "i" * 600)
    engine.loop.run(store.put_evidence(whose, evidence("e1", "The gate code is 7391.")))
    assert "7391" in ce("show", whose.session_id, "--user", "ann", "--store", store.url).stdout
    assert engine.sync.delete_evidence(whose, "e1").evidences == 1
    assert engine.sync.delete_user_data("", "ann").sessions == 1
    engine.sync.close()
