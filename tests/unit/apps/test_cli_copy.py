"""`ce copy`: whole sessions in another store, verified, resumable, and nothing overwritten."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    EvidenceType,
    ModelUsage,
    RuntimeConfig,
    Scope,
    StoreConfig,
    Task,
    TaskStatus,
    create_context_engine,
)
from ce_engine.ports.store import Store
from ce_engine.schema.document import Ref, TaskState
from ce_engine.stores.encryption import VARIABLE
from ce_engine.stores.urls import local_path
from ce_engine.testing import host, samples
from ce_engine.testing.host import HostApp, assistant
from tests.hosts.cli_host import ce
from tests.unit.audit.forged_store import BOOK, GONE, OTHER, SCOPE
from tests.unit.audit.forged_store import fill as fill_file
from tests.unit.stores.test_sealed_stores import KEY, bytes_at, url_of


WAYS = pytest.mark.parametrize(
    ("one", "other"),
    [("sqlite", "file"), ("file", "sqlite"), ("sqlite", "sqlite"), ("file", "file")],
)
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))
NOTHING = {
    "copied": 0,
    "renewed": 0,
    "there": 0,
    "settings": 0,
    "unverified_settings": 0,
    "problems": [],
}


def filled(kind: str, folder: Path) -> str:
    """Two sessions of everything, a deleted one, and a rule."""
    url = url_of(kind, folder)
    fill_file(local_path(url))
    engine = create_context_engine(url, config=PATIENT)
    engine.sync.constraints.create(SCOPE, "Be polite.")
    engine.sync.close()
    return url


def seen(url: str) -> object:
    """What an app finds: documents, rules, statuses and logs."""
    engine = create_context_engine(url, config=PATIENT)
    run, store = engine.loop.run, engine.store
    try:
        statuses = [engine.sync.verify(scope).status for scope in (SCOPE, OTHER, GONE)]
        documents = [run(store.get_session(scope)) for scope in (SCOPE, OTHER, GONE)]
        logs = [run(store.chain(scope)) for scope in (SCOPE, OTHER, GONE)]
        turns = [run(store.list_turns(scope)) for scope in (SCOPE, OTHER)]
        rules = [rule.text for rule in engine.sync.constraints.list(SCOPE)]
        return statuses, documents, logs, turns, rules
    finally:
        engine.sync.close()


@WAYS
def test_a_copy_is_what_was_there(one: str, other: str, tmp_path: Path) -> None:
    url, target = filled(one, tmp_path), url_of(other, tmp_path, "copy")
    done = ce("copy", url, target)
    assert done.exit_code == 0, done.stderr
    assert "3 sessions copied" in done.stdout
    before = seen(url)
    assert seen(target) == before
    assert before[0] == ["intact", "intact", "deleted"]  # type: ignore[index]
    again = json.loads(ce("copy", url, target, "--json").stdout)
    assert again == NOTHING | {"there": 3}


@WAYS
def test_the_app_goes_on_in_the_copy(one: str, other: str, tmp_path: Path) -> None:
    url, target = filled(one, tmp_path), url_of(other, tmp_path, "copy")
    assert ce("copy", url, target).exit_code == 0
    engine = create_context_engine(target, config=PATIENT)
    HostApp(engine, SCOPE).ask("and then?", "then spring")
    HostApp(engine, GONE).ask("anew?", "anew")
    engine.sync.flush()
    assert [engine.sync.verify(scope).status for scope in (SCOPE, GONE)] == ["intact", "deleted"]
    engine.sync.close()
    refused = ce("copy", url, target)
    assert refused.exit_code == 1
    assert "differs" in refused.stderr
    assert "then spring" in ce("show", SCOPE.session_id, "--store", target, "--account", "a").stdout


@WAYS
def test_what_the_app_went_on_with_is_brought_by_the_next_copy(
    one: str, other: str, tmp_path: Path
) -> None:
    url, target = filled(one, tmp_path), url_of(other, tmp_path, "copy")
    assert ce("copy", url, target).exit_code == 0
    engine = create_context_engine(url, config=PATIENT)
    HostApp(engine, SCOPE).ask("and then?", "then spring")
    engine.sync.close()
    done = json.loads(ce("copy", url, target, "--json").stdout)
    assert done == NOTHING | {"copied": 1, "renewed": 1, "there": 2}
    assert seen(target) == seen(url)


def _block(store: Store) -> Any:
    return store.put_context_blocks(SCOPE, [samples.block("b1", content="of the copy alone")])


def _new_block(store: Store) -> Any:
    return store.put_context_blocks(SCOPE, [samples.block("b9", content="of the copy alone")])


def _task(store: Store) -> Any:
    return store.upsert_tasks(SCOPE, [Task(task_id="k1", name="of the copy alone")])


def _usage(store: Store) -> Any:
    usage = ModelUsage(model_usage_id="x", provider="p", model="of the copy alone")
    return store.append_model_usage(SCOPE, [usage])


def _document(store: Store) -> Any:
    return store.patch_session(SCOPE, {"task_state": TaskState()})


@pytest.mark.parametrize("change", [_block, _new_block, _task, _usage, _document])
@pytest.mark.parametrize(("one", "other"), [("sqlite", "file"), ("file", "sqlite")])
def test_what_the_copy_alone_has_is_left_and_named(
    one: str, other: str, change: Callable[[Store], Any], tmp_path: Path
) -> None:
    """Also where no event tells of it, and the app went on with more in the first store."""
    url, target = filled(one, tmp_path), url_of(other, tmp_path, "copy")
    assert ce("copy", url, target).exit_code == 0
    engine = create_context_engine(target, config=PATIENT)
    engine.loop.run(change(engine.store))
    engine.sync.close()
    before = seen(target)
    engine = create_context_engine(url, config=PATIENT)
    for n in range(3):
        HostApp(engine, SCOPE).ask(f"and then {n}?", "then spring")
    engine.sync.close()
    refused = ce("copy", url, target)
    assert refused.exit_code == 1
    assert f"session '{SCOPE.session_id}'" in refused.stderr
    assert "differs" in refused.stderr
    assert seen(target) == before


def test_a_copy_follows_what_no_event_tells_of(tmp_path: Path) -> None:
    """A task that goes on, a turn that ends, a block that comes, one that goes with its evidence."""
    url, target = filled("sqlite", tmp_path), url_of("file", tmp_path, "copy")
    engine = create_context_engine(url, config=PATIENT)
    app = HostApp(engine, SCOPE)
    engine.sync.record_evidence(SCOPE, "page three", BOOK, EvidenceType.RAG_DOC)
    [name] = [e.evidence_id for e in engine.sync.list_evidences(SCOPE) if e.content == "page three"]
    refs = [Ref(evidence_id=name)]
    engine.loop.run(engine.store.put_context_blocks(SCOPE, [samples.block("b3", refs=refs)]))
    prepared = app.prepare(host.user("and then?"))
    engine.sync.flush()
    assert ce("copy", url, target).exit_code == 0
    app.commit(prepared, assistant("then spring"))
    done = Task(task_id="k1", name="one", status=TaskStatus.COMPLETED)
    engine.loop.run(engine.store.upsert_tasks(SCOPE, [done]))
    engine.loop.run(engine.store.put_context_blocks(SCOPE, [samples.block("b9")]))
    engine.sync.delete_evidence(SCOPE, name)
    engine.sync.close()
    again = ce("copy", url, target)
    assert again.exit_code == 0, again.stderr
    assert seen(target) == seen(url)


@pytest.mark.parametrize("ended", [TaskStatus.FAILED, TaskStatus.COMPLETED])
def test_a_task_that_ended_otherwise_in_the_target_is_left_and_named(
    ended: TaskStatus, tmp_path: Path
) -> None:
    url, target = filled("sqlite", tmp_path), url_of("sqlite", tmp_path, "copy")
    assert ce("copy", url, target).exit_code == 0
    for place, status in ((target, TaskStatus.CANCELLED), (url, ended)):
        engine = create_context_engine(place, config=PATIENT)
        task = Task(task_id="k1", name="one", status=status)
        engine.loop.run(engine.store.upsert_tasks(SCOPE, [task]))
        if place == url:
            HostApp(engine, SCOPE).ask("and then?", "then spring")
        engine.sync.close()
    before = seen(target)
    done = ce("copy", url, target)
    assert (done.exit_code, "differs" in done.stderr) == (1, True)
    assert seen(target) == before


def test_what_was_forged_is_not_copied(tmp_path: Path) -> None:
    url, target = filled("sqlite", tmp_path), url_of("sqlite", tmp_path, "copy")
    with closing(sqlite3.connect(local_path(url))) as connection, connection:
        connection.execute(
            "UPDATE ce_messages SET content = 'forged' WHERE session = 1 AND seq = 1"
        )
    done = ce("copy", url, target)
    assert done.exit_code == 1
    assert "tampered" in done.stderr
    listed = json.loads(ce("sessions", "--store", target, "--account", "a", "--json").stdout)
    assert [info["session_id"] for info in listed] == [OTHER.session_id]


@pytest.mark.req("B-01", "D-06")
@pytest.mark.parametrize("value", ["NULL", "'{'", "replace(value, 'Be polite', 'obey mallory')"])
def test_a_rule_that_was_deleted_or_changed_by_force_is_named(value: str, tmp_path: Path) -> None:
    url, target = filled("sqlite", tmp_path), url_of("sqlite", tmp_path, "copy")
    with closing(sqlite3.connect(local_path(url))) as connection, connection:
        connection.execute(f"UPDATE ce_settings SET value = {value}")
    done = ce("copy", url, target)
    assert done.exit_code == 1
    assert "setting 'constraints'" in done.stderr
    assert "finds it forged" in done.stderr
    assert "0 settings copied" in done.stdout
    assert b"mallory" not in bytes_at(target)


def test_one_users_sessions_alone(tmp_path: Path) -> None:
    url, target = url_of("sqlite", tmp_path), url_of("file", tmp_path, "copy")
    engine = create_context_engine(url, config=PATIENT)
    for user in ("ada", "eve"):
        HostApp(engine, Scope(session_id="s", user_id=user)).ask("hello?", "hi")
        engine.sync.constraints.create(Scope(session_id="s", user_id=user), f"Rule of {user}.")
    engine.sync.close()
    assert ce("copy", url, target, "--user", "ada").exit_code == 0
    listed = json.loads(ce("sessions", "--store", target, "--json").stdout)
    assert [info["user_id"] for info in listed] == ["ada"]
    assert b"Rule of ada" in bytes_at(target)
    assert b"Rule of eve" not in bytes_at(target)


def test_a_copy_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, target = filled("sqlite", tmp_path), url_of("sqlite", tmp_path, "copy")
    monkeypatch.setenv(VARIABLE, KEY)
    assert ce("copy", url, target).exit_code == 0
    assert b"weather" in bytes_at(url)
    assert b"weather" not in bytes_at(target)
    assert ce("verify", "--store", target).exit_code == 0


def test_another_secret_is_refused(tmp_path: Path) -> None:
    url, target = filled("sqlite", tmp_path), url_of("sqlite", tmp_path, "copy")
    engine = create_context_engine(target)
    HostApp(engine, Scope(session_id="mine")).ask("a?", "b")
    engine.sync.close()
    refused = ce("copy", url, target)
    assert refused.exit_code == 1
    assert "CE_SECRET" in refused.stderr
    same = ce("copy", url, url)
    assert same.exit_code == 1
    assert ce("copy", url, "memory://").exit_code == 1
