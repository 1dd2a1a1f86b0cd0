"""PostgreSQL: a deletion says what the server keeps in its files, and `ce delete --rewrite` leaves it nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from time import sleep

import pytest
from sqlalchemy.engine import URL, make_url

from ce_engine import (
    DeletionReport,
    RetentionConfig,
    RetentionRule,
    RuntimeConfig,
    Scope,
    StoreConfig,
    StoreUnavailableError,
    create_context_engine,
)
from ce_engine.stores.tables import vacuuming
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce
from tests.postgres_server import (
    IS_THERE,
    PARTITIONS,
    connected,
    forget,
    new_database,
    schema_of,
    server,
)


pytestmark = [
    pytest.mark.skipif(not IS_THERE, reason="no PostgreSQL: see tests/postgres_server.py"),
    pytest.mark.req("A-30"),
]

CANARY = "the gate code is 7391"
MINE, OTHER = (Scope(session_id=name, user_id="ann") for name in ("mine", "other"))
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=30))


@pytest.fixture(scope="module")
def database() -> Iterator[URL]:
    """Whose transactions are open elsewhere is nothing to a database of one's own."""
    with new_database() as made:
        yield made


@pytest.fixture
def url(database: URL, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The store of a talk."""
    monkeypatch.setenv("CE_SECRET", "a secret that the hosts of these tests share")
    monkeypatch.setattr(vacuuming, "OLDER_S", 20.0)  # other tests write on the same server
    name = f"t{secrets.token_hex(8)}"
    made = database.update_query_dict({"options": f"-csearch_path={name}"})
    found = made.render_as_string(hide_password=False)
    with connected(found) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    engine = create_context_engine(found, config=PATIENT)
    HostApp(engine, MINE).ask("What is it?", CANARY)
    HostApp(engine, OTHER).ask("And else?", "Nothing that anybody wants gone.")
    engine.sync.close()
    yield found
    forget(found)


@pytest.fixture
def of_app(url: str) -> Iterator[str]:
    """The same store for a role that may read and write the tables, and does not own them."""
    role, word, schema = f"r{secrets.token_hex(8)}", secrets.token_hex(8), schema_of(url)
    with connected(url) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{word}'")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        connection.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
        )
    made = make_url(url).set(username=role, password=word)
    yield made.render_as_string(hide_password=False)
    with connected(url) as connection:
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


@contextmanager
def reader_of(url: str) -> Iterator[None]:
    """Somebody who began to read before the deletion, another table than ours, and goes on."""
    with connected(url) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.execute("ROLLBACK")


def files_of(url: str) -> bytes:
    """Every byte of the files of the database, as they are on the disk."""
    with connected(url) as connection:
        connection.execute("CHECKPOINT")  # what was dropped goes with the next one
        rows = connection.execute(
            "SELECT pg_read_binary_file(folder || '/' || name, 0, 1 << 24, true) FROM "
            "(SELECT 'base/' || oid AS folder FROM pg_database WHERE datname = current_database()) AS d, "
            "LATERAL pg_ls_dir(folder) AS name"
        ).fetchall()
    return b"".join(row[0] or b"" for row in rows)


def deleted_by(url: str) -> DeletionReport:
    engine = create_context_engine(url, config=PATIENT)
    try:
        report = engine.sync.delete_session(MINE)
        assert engine.sync.get_session(MINE) is None
        assert engine.sync.get_session(OTHER) is not None
    finally:
        engine.sync.close()
    return report


def test_nothing_is_said_where_the_server_did_all(url: str) -> None:
    report = deleted_by(url)
    assert (report.sessions, report.bytes_left) == (1, "")
    assert "bytes_left" not in report.model_dump()


def test_a_role_that_does_not_own_the_tables_says_so(url: str, of_app: str) -> None:
    report = deleted_by(of_app)
    assert report.sessions == 1
    assert "does not own" in report.bytes_left
    assert "GRANT MAINTAIN" in report.bytes_left
    assert "ce delete --rewrite" in report.bytes_left
    assert CANARY.encode() in files_of(url)


def test_a_transaction_that_began_before_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuuming, "OLDER_S", 0.1)
    with reader_of(url):
        report = deleted_by(url)
        assert "older transactions" in report.bytes_left
        assert "process " in report.bytes_left
        again = ce("delete", "--rewrite", "--store", url)
        assert (again.exit_code, "older transactions" in again.stderr) == (1, True)
    monkeypatch.setattr(vacuuming, "OLDER_S", 20.0)
    assert deleted_by(url).bytes_left == ""


def test_a_write_in_another_database_that_began_before_is_named(
    url: str, of_app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every snapshot on the server begins with the oldest write that is under way, that of a rewrite, too."""
    monkeypatch.setattr(vacuuming, "OLDER_S", 0.1)
    with connected(server()) as elsewhere:
        elsewhere.execute("BEGIN")
        elsewhere.execute("SELECT txid_current()")
        assert "older transactions" in deleted_by(of_app).bytes_left
        deletion = ce("delete", "--rewrite", "--store", url)
        assert deletion.exit_code == 1
        assert f"process {elsewhere.info.backend_pid}" in deletion.stderr
        assert CANARY.encode() in files_of(url)
        elsewhere.execute("ROLLBACK")
    monkeypatch.setattr(vacuuming, "OLDER_S", 20.0)
    again = ce("delete", "--rewrite", "--store", url)
    assert (again.exit_code, again.stderr) == (0, "")
    assert CANARY.encode() not in files_of(url)


def test_the_command_fails_and_rewrites(url: str, of_app: str) -> None:
    assert CANARY.encode() in files_of(url)
    at = ("--session", "mine", "--user", "ann", "--yes")
    done = ce("delete", *at, "--store", of_app)
    assert done.exit_code == 1
    assert "deleted 1 sessions" in done.stdout
    assert "CONTEXT_DELETED_BYTES" in done.stderr
    assert ce("delete", "--rewrite", "--store", of_app).exit_code == 1
    rewritten = ce("delete", "--rewrite", "--store", url)
    assert (rewritten.exit_code, rewritten.stderr) == (0, "")
    assert CANARY.encode() not in files_of(url)
    assert ce("verify", "other", "--user", "ann", "--store", url).exit_code == 0


def test_a_table_that_an_operator_partitioned_is_rewritten(url: str) -> None:
    """Its rows are in the files of its partitions, and it has none itself."""
    with connected(url) as connection:
        for statement in PARTITIONS:
            connection.execute(statement)
    at = ("--session", "mine", "--user", "ann", "--yes")
    done = ce("delete", *at, "--rewrite", "--store", url)
    assert (done.exit_code, done.stderr) == (0, "")
    assert CANARY.encode() not in files_of(url)
    assert ce("verify", "other", "--user", "ann", "--store", url).exit_code == 0


def test_one_command_deletes_and_rewrites(url: str) -> None:
    done = ce("delete", "--user", "ann", "--yes", "--rewrite", "--json", "--store", url)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["sessions"] == 2
    assert CANARY.encode() not in files_of(url)


SAMPLED = "the word of the safe is marmalade"
"""Dead rows of the server's own catalog keep it: no other test may look for it in the files."""


def samples_of(url: str) -> str:
    """What the server's planner keeps of the tables' values, as anybody who may read them sees it."""
    with connected(url) as connection:
        rows = connection.execute(
            "SELECT most_common_vals::text, histogram_bounds::text FROM pg_stats WHERE schemaname = %s",
            (schema_of(url),),
        )
        return str(rows.fetchall())


def say_and_analyze(url: str, *statements: str) -> None:
    """Another question, which the server samples where it may."""
    engine = create_context_engine(url, config=PATIENT)
    engine.sync.delete_session(MINE)
    HostApp(engine, MINE).ask("And what is that?", SAMPLED)
    engine.sync.close()
    with connected(url) as connection:
        for statement in (*statements, "ANALYZE"):
            connection.execute(statement)


SAMPLING = "ALTER TABLE ce_messages ALTER COLUMN content SET STATISTICS 100"
"""As in tables of before, or where an operator turned it on."""


def test_the_server_samples_no_content(url: str) -> None:
    say_and_analyze(url)
    assert "committed" in samples_of(url)
    assert "marmalade" not in samples_of(url)


@pytest.mark.parametrize("more", [(), ("--rewrite",)])
def test_a_deletion_takes_samples_along_that_are_there(url: str, more: tuple[str, ...]) -> None:
    """No row is left to sample anew: ANALYZE alone would keep those of before."""
    say_and_analyze(url, SAMPLING)
    assert "marmalade" in samples_of(url)
    deletion = ce("delete", "--user", "ann", "--yes", *more, "--store", url)
    assert (deletion.exit_code, deletion.stderr) == (0, "")
    assert "marmalade" not in samples_of(url)
    with connected(url) as connection:
        connection.execute("ANALYZE")
    assert "marmalade" not in samples_of(url)


@pytest.mark.parametrize("more", [(), ("--rewrite",)])
def test_a_view_on_content_keeps_its_samples_and_no_row(url: str, more: tuple[str, ...]) -> None:
    """The server sets no type anew of a column that somebody's view reads; the deletion goes on, and says so."""
    with connected(url) as connection:
        connection.execute("CREATE VIEW mine AS SELECT content FROM ce_messages")
    say_and_analyze(url, SAMPLING)
    deletion = ce("delete", "--user", "ann", "--yes", *more, "--store", url)
    assert deletion.exit_code == 1
    assert "a view, a trigger" in deletion.stderr
    with connected(url) as connection:
        assert connection.execute("SELECT count(*) FROM ce_messages").fetchone() == (0,)
        connection.execute("DROP VIEW mine")
    again = ce("delete", "--rewrite", "--store", url)
    assert (again.exit_code, again.stderr) == (0, "")
    assert "marmalade" not in samples_of(url)


def test_samples_that_a_role_cannot_take_away_are_named(url: str, of_app: str) -> None:
    say_and_analyze(url, SAMPLING)
    assert "statistics (pg_stats)" in deleted_by(of_app).bytes_left
    assert ce("delete", "--rewrite", "--store", url).exit_code == 0
    assert "marmalade" not in samples_of(url)


def test_a_table_that_somebody_holds_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = [each.replace("5000", "200") for each in vacuuming._PATIENT]
    monkeypatch.setattr(vacuuming, "_PATIENT", patient)
    with connected(url) as connection:
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE ce_messages IN ACCESS SHARE MODE")
        done = ce("delete", "--rewrite", "--store", url)
        connection.execute("ROLLBACK")
    assert done.exit_code == 1
    assert "others hold ce_messages" in done.stderr


END_VACUUM = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'VACUUM (FULL%ce_messages' AND wait_event_type = 'Lock'
"""


def test_a_connection_that_the_server_ends_meanwhile_is_opened_anew(url: str) -> None:
    """To give the lost one back what it had raised an error that hid what had happened."""
    with connected(url) as connection, connected(url) as other, ThreadPoolExecutor(1) as thread:
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE ce_messages IN ACCESS SHARE MODE")
        deletion = thread.submit(ce, "delete", "--rewrite", "--store", url)
        ended = False
        while not ended and not deletion.done():
            sleep(0.01)
            ended = bool(other.execute(END_VACUUM).fetchall())
        connection.execute("ROLLBACK")
        done = deletion.result()
    assert (ended, done.exit_code, done.stderr) == (True, 0, "")


def test_a_sweep_says_it_too(of_app: str) -> None:
    rule = RetentionRule(kind="session", max_count=0)
    engine = create_context_engine(of_app, config=PATIENT)
    report = engine.sync.sweep(RetentionConfig(rules=(rule,), every=timedelta(days=1)))
    engine.sync.close()
    assert report.deleted.sessions == 2
    assert "does not own" in report.deleted.bytes_left


def test_the_command_that_sweeps_fails(url: str, of_app: str) -> None:
    with connected(url) as connection:
        connection.execute("UPDATE ce_sessions SET updated_at = '2020-01-01T00:00:00Z'")
    done = ce("sweep", "--sessions", "90d", "--store", of_app)
    assert done.exit_code == 1
    assert "does not own" in done.stderr


@pytest.mark.req("A-30")
def test_rows_that_a_policy_keeps_are_no_deletion(url: str, of_app: str) -> None:
    policies = ("SELECT USING (true)", "INSERT WITH CHECK (true)", "UPDATE USING (true)")
    with connected(url) as connection:
        connection.execute("ALTER TABLE ce_messages ENABLE ROW LEVEL SECURITY")
        for n, policy in enumerate(policies):
            connection.execute(f"CREATE POLICY p{n} ON ce_messages FOR {policy}")
    engine = create_context_engine(of_app, config=PATIENT)
    with pytest.raises(StoreUnavailableError, match=r"row-level security.*Nothing was deleted"):
        engine.sync.delete_session(MINE)
    document = engine.sync.get_session(MINE)
    engine.sync.close()
    assert document is not None
    assert document.session.messages[-1].content == CANARY
