"""The audit log as OpenTelemetry log records (B-05)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ce_engine.errors import MissingDependencyError
from ce_engine.schema.audit import AuditRecord


if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider


EVENT = "ce.audit"


class OpenTelemetryAudit:
    """Emits a log record with the event name `ce.audit`, its fields as attributes `ce.audit.*`.

    Where it goes, and how it is batched, is the provider's: by default the process's own.

    Raises:
        MissingDependencyError: the API of OpenTelemetry is not installed.
    """

    def __init__(self, provider: LoggerProvider | None = None) -> None:
        try:
            # Under this name in 1.45: the signal is stable, its Python names are not yet.
            from opentelemetry import _logs as logs  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingDependencyError(
                "an audit log by OpenTelemetry needs its API. Run: pip install 'ce-integrations[otel]'"
            ) from error
        self._logs: Any = logs
        self._logger = logs.get_logger(__name__, logger_provider=provider)

    def write(self, record: AuditRecord) -> None:
        """Emit a record."""
        severity = self._logs.SeverityNumber
        fields = {
            name: value for name, value in record.as_dict().items() if value not in (None, "", {})
        }
        self._logger.emit(
            self._logs.LogRecord(
                event_name=EVENT,
                severity_number=severity.INFO if record.level == "INFO" else severity.WARN,
                severity_text=record.level,
                body=f"{record.event} {record.status}",
                attributes={f"{EVENT}.{name}": value for name, value in fields.items()},
            )
        )
