"""Where records of accesses go: a file of JSON lines, OpenTelemetry's logs (B-05)."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path

import pytest

from ce_engine import (
    AuditRecord,
    ConfigError,
    JsonLinesAudit,
    MemoryStore,
    MissingDependencyError,
    OpenTelemetryAudit,
    Scope,
    create_context_engine,
)
from ce_engine.schema.times import iso
from ce_engine.testing.host import HostApp
from tests.hosts.store_host import FORK


def record(n: int = 0, **more: object) -> AuditRecord:
    return AuditRecord(f"2030-01-01T00:00:{n:02}Z", "read", "get_session", "li", **more)  # type: ignore[arg-type]


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


REQUIRED = (
    "ts level event user_id session_id request_id state_version event_id event_type duration_ms "
    "status error_code meta"
).split()


@pytest.mark.req("B-05")
def test_a_line_has_the_fields_of_the_register(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    engine = create_context_engine(MemoryStore(), audit=JsonLinesAudit(path))
    engine.sync.get_session(Scope(session_id='王\n{"x": 1}', user_id="李"))
    engine.sync.close()
    (line,) = lines(path)
    assert set(REQUIRED) <= set(line) == {field.name for field in fields(AuditRecord)}
    assert (line["session_id"], line["user_id"], line["status"]) == (
        '王\n{"x": 1}',
        "李",
        "not_found",
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.req("B-05")
def test_a_file_that_is_full_is_put_aside_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = JsonLinesAudit(path, max_bytes=1000, keep=2)
    for n in range(30):
        log.write(record(n, session_id=f"s{n}"))
    aside = sorted(tmp_path.glob("audit.jsonl.*"))
    assert len(aside) == 2
    told = [line["session_id"] for each in [*aside, path] if each.exists() for line in lines(each)]
    assert told == [f"s{n}" for n in range(30 - len(told), 30)]
    assert len(told) >= 6


@pytest.mark.req("B-05")
def test_after_a_clock_that_was_ahead_the_oldest_go_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for n in range(2):
        ahead = tmp_path / f"audit.jsonl.20990101T00000{n}.000000Z-1"
        ahead.write_text(json.dumps({"session_id": f"ahead-{n}"}) + "\n")
    log = JsonLinesAudit(path, max_bytes=1000, keep=2)
    for n in range(30):
        log.write(record(n, session_id=f"s{n}"))
    aside = sorted(tmp_path.glob("audit.jsonl.*"))
    told = [line["session_id"] for each in [*aside, path] if each.exists() for line in lines(each)]
    assert told == [f"s{n}" for n in range(30 - len(told), 30)]
    assert len(told) >= 6


@pytest.mark.req("B-05", "B-08")
def test_what_is_no_log_of_ours_beside_it_is_left(tmp_path: Path) -> None:
    """Checksums, packed copies, notes: neither deleted, nor counted among those that stay."""
    path = tmp_path / "audit[1].jsonl"  # no pattern either
    others = [tmp_path / f"audit[1].jsonl.{end}" for end in ("bak", "sha256", "zz", "2026.gz")]
    for each in others:
        each.write_text("precious")
    log = JsonLinesAudit(path, max_bytes=1000, keep=2)
    for n in range(30):
        log.write(record(n, session_id=f"s{n}"))
    assert [each.read_text() for each in others] == ["precious"] * 4
    there = [each for each in tmp_path.iterdir() if each not in others]
    told = sorted(str(line["session_id"]) for each in there for line in lines(each))
    assert len(told) >= 6
    assert "s29" in told


def day(n: int) -> AuditRecord:
    at = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=n)
    return replace(record(), ts=iso(at), session_id=f"day-{n}")


@pytest.mark.req("B-05", "B-08")
@pytest.mark.parametrize("anew", [False, True])
def test_no_record_stays_longer_than_its_age(tmp_path: Path, *, anew: bool) -> None:
    path = tmp_path / "audit.jsonl"
    log = JsonLinesAudit(path, max_age=timedelta(days=100), keep=None)
    written: set[int] = set()
    for n in (*range(150), *range(190, 300), 1000, *range(1001, 1200)):
        written.add(n)
        if anew:
            log = JsonLinesAudit(path, max_age=timedelta(days=100), keep=None)
        log.write(day(n))
        told = [str(line["session_id"]) for each in tmp_path.iterdir() for line in lines(each)]
        days = {int(each.removeprefix("day-")) for each in told}
        assert len(days) == len(told)
        assert days == written & set(range(min(days), n + 1)), "none is lost between"
        assert n - min(days) <= 100
        assert {each for each in written if n - each < 90} <= days


def write_many(path: Path, name: str) -> None:
    log = JsonLinesAudit(path, max_bytes=20_000, keep=None)
    for n in range(200):
        log.write(record(n % 60, session_id=f"{name}-{n}", meta={"pad": "x" * 100}))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.req("B-05")
def test_processes_share_a_file_and_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    started = [FORK.Process(target=write_many, args=(path, str(n))) for n in range(3)]
    for each in started:
        each.start()
    for each in started:
        each.join(100)
    assert [each.exitcode for each in started] == [0] * 3
    # Who writes while another is within its line begins a new one: an empty line may stand between.
    written = [
        line for each in tmp_path.iterdir() for line in each.read_text().splitlines() if line
    ]
    told = [str(json.loads(line)["session_id"]) for line in written]
    assert sorted(told) == sorted(f"{n}-{m}" for n in range(3) for m in range(200))


def test_a_place_that_takes_nothing_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        JsonLinesAudit(tmp_path / "none" / "audit.jsonl")


def test_the_variable_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    monkeypatch.setenv("CE_AUDIT_LOG", str(path))
    engine = create_context_engine(MemoryStore())
    engine.sync.list_sessions(user_id="li")
    engine.sync.close()
    assert [(line["event"], line["user_id"]) for line in lines(path)] == [("list", "li")]


@pytest.mark.req("B-05")
def test_opentelemetry_has_each_record_once() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk._logs", reason="the SDK is in the extra `bench`")
    export = pytest.importorskip("opentelemetry.sdk._logs.export")
    exporter, provider = export.InMemoryLogRecordExporter(), sdk.LoggerProvider()
    provider.add_log_record_processor(export.SimpleLogRecordProcessor(exporter))
    OpenTelemetryAudit(provider).write(record(session_id="s", status="denied", level="WARNING"))
    (found,) = (each.log_record for each in exporter.get_finished_logs())
    assert found.event_name == "ce.audit"
    assert found.severity_text == "WARNING"
    assert found.attributes["ce.audit.actor"] == "li"
    assert found.attributes["ce.audit.status"] == "denied"
    assert "ce.audit.error_code" not in found.attributes
    provider.shutdown()


def test_without_opentelemetry_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingDependencyError, match=r"ce-integrations\[otel\]"):
        OpenTelemetryAudit()


SCOPE = Scope(session_id="s", user_id="li")


def in_time(work: Callable[[], object]) -> None:
    """Fail where it never ends."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it hangs"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[FileIO]:
    """Who reads a pipe that is the log, such as a shipper."""
    os.mkfifo(tmp_path / "audit")
    with FileIO(os.open(tmp_path / "audit", os.O_RDONLY | os.O_NONBLOCK)) as file:
        yield file


@pytest.mark.req("B-05")
def test_a_pipe_whose_reader_ends_stops_nobody(
    tmp_path: Path, reader: FileIO, caplog: pytest.LogCaptureFixture
) -> None:
    engine = create_context_engine(
        MemoryStore(), audit=JsonLinesAudit(tmp_path / "audit", max_age=timedelta(days=1))
    )
    HostApp(engine, SCOPE).ask("What is it?", "A lamp.")
    in_time(lambda: engine.sync.get_session(SCOPE))
    (line,) = (reader.read() or b"").splitlines()
    assert json.loads(line)["event_type"] == "get_session"
    reader.close()
    in_time(lambda: engine.sync.get_session(SCOPE))
    assert "an access was not audited" in caplog.text
    in_time(lambda: HostApp(engine, SCOPE).ask("And that?", "A chair."))
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    assert len(document.session.messages) == 4
    in_time(engine.sync.close)


def test_a_pipe_that_nobody_reads_yet_is_told_of_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "audit")
    logs: list[JsonLinesAudit] = []
    in_time(lambda: logs.append(JsonLinesAudit(tmp_path / "audit")))
    assert "is a pipe that nobody reads" in caplog.text
    with FileIO(os.open(tmp_path / "audit", os.O_RDONLY | os.O_NONBLOCK)) as file:
        logs[0].write(record())
        assert (file.read() or b"").count(b"\n") == 1


LONG = record(session_id="x" * 150_000)
"""More than a pipe takes at once."""


@pytest.mark.req("B-05")
def test_a_pipe_that_is_full_takes_no_more_and_the_next_record_is_a_line_of_its_own(
    tmp_path: Path, reader: FileIO
) -> None:
    log = JsonLinesAudit(tmp_path / "audit")
    with pytest.raises(BlockingIOError):
        log.write(LONG)
    torn = (reader.read(1 << 20) or b"").decode()
    assert "\n" not in torn
    for n in range(2):
        log.write(record(n, session_id="next"))
    end, *whole = (reader.read(1 << 20) or b"").decode().splitlines()
    assert end == ""
    assert [json.loads(line)["session_id"] for line in whole] == ["next", "next"]


@pytest.mark.req("B-05")
def test_a_record_that_was_broken_off_is_ended_by_whoever_writes_next(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    JsonLinesAudit(path).write(record())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):  # the disk takes a part of it
            JsonLinesAudit(path).write(record(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for n in (2, 3):
        JsonLinesAudit(path).write(record(n))  # as another process
    first, torn, *whole = path.read_text().splitlines()
    assert len(torn) == 40
    assert [json.loads(line)["ts"][17:19] for line in (first, *whole)] == ["00", "02", "03"]


@pytest.mark.req("B-05")
def test_a_record_that_another_process_broke_off_is_ended_by_one_that_wrote_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    log, other = JsonLinesAudit(path), JsonLinesAudit(path)
    log.write(record())
    other.write(record(1))
    with path.open("a") as file:
        file.write('{"ts":"2030-01-01T00:0')
    log.write(record(2))
    log.write(record(3))
    *_, torn, second, third = path.read_text().splitlines()
    assert torn == '{"ts":"2030-01-01T00:0'
    assert [json.loads(line)["ts"][17:19] for line in (second, third)] == ["02", "03"]


@pytest.mark.req("B-05", "B-08")
@pytest.mark.parametrize("long", ["", "x" * 100_000])
@pytest.mark.parametrize("day_of", [0, 1])
def test_no_record_stays_longer_where_a_line_is_broken(
    tmp_path: Path, day_of: int, long: str
) -> None:
    """The first of a file, or the last of one that was put aside."""
    path = tmp_path / "audit.jsonl"
    for n in range(60):
        if n == day_of:
            with path.open("a") as file:
                file.write(f'{{"ts":"2030-01-01T0{long}')
        JsonLinesAudit(path, max_age=timedelta(days=10), keep=None).write(day(n))
    texts = [each.read_text() for each in tmp_path.iterdir()]
    days = {int(found) for text in texts for found in re.findall(r"day-(\d+)", text)}
    assert min(days) >= 49
    assert not any('T0{"ts' in text or (long and long in text) for text in texts)


@pytest.mark.req("B-05")
def test_what_a_link_leads_to_is_what_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    path, real = tmp_path / "audit.jsonl", tmp_path / "logs" / "audit.jsonl"
    path.symlink_to(real)
    log = JsonLinesAudit(path, max_bytes=1000, keep=2)
    for n in range(30):
        log.write(record(n, session_id=f"s{n}"))
    assert path.is_symlink()
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] in ([], ["audit.jsonl"])
    aside = sorted((tmp_path / "logs").glob("audit.jsonl.*"))
    told = [line["session_id"] for each in [*aside, real] if each.exists() for line in lines(each)]
    assert len(aside) == 2
    assert told == [f"s{n}" for n in range(30 - len(told), 30)]


def test_an_id_stands_whole(tmp_path: Path) -> None:
    path, ids = tmp_path / "audit.jsonl", [f"{'x' * 500}-{n}" for n in range(2)]
    engine = create_context_engine(MemoryStore(), audit=JsonLinesAudit(path))
    for each in ids:
        engine.sync.get_session(Scope(session_id=each, user_id="li"))
    engine.sync.close()
    assert [line["session_id"] for line in lines(path)] == ids


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.req("B-05")
def test_a_fork_while_a_thread_writes_stops_nothing_in_the_child(tmp_path: Path) -> None:
    """Nobody there would let go of what the thread held: the engine's loop stood still, and the app's calls with it."""
    path = tmp_path / "audit.jsonl"
    log = JsonLinesAudit(path)
    with log._lock:  # as a thread holds it that waits for the disk
        child = FORK.Process(target=log.write, args=(record(1),))
        child.start()
    child.join(30)
    child.kill()
    assert [line["ts"] for line in lines(path)] == ["2030-01-01T00:00:01Z"]


def test_a_pipe_beside_the_log_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = JsonLinesAudit(path, max_age=timedelta(days=100))
    os.mkfifo(tmp_path / "audit.jsonl.20300101T000000.000000Z-1")
    in_time(lambda: log.write(record()))
    assert len(lines(path)) == 1
