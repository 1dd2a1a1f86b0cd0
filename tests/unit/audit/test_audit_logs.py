"""Where records of accesses go: a file of JSON lines, OpenTelemetry's logs (B-05)."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
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
    told = [line["session_id"] for each in tmp_path.iterdir() for line in lines(each)]
    assert sorted(map(str, told)) == sorted(f"{n}-{m}" for n in range(3) for m in range(200))


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
