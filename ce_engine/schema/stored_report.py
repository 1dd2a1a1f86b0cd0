"""Whether a stored report, with its archive, has the types that it was written with: a file is anybody's to write to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Strict, TypeAdapter, ValidationError

from ce_engine.schema.report import Report
from ce_engine.schema.rows import TurnRow


DAMAGED = "CONTEXT_REPORT_DAMAGED"
"""The error that a turn has whose report is none."""

_NEWER = "extra_forbidden"
"""A field that this release does not know is no damage."""
_FromList = Strict(False)
"""JSON has no tuples."""
_Named = Annotated[tuple[str, str], _FromList]
_Known = Annotated[tuple[int, str], _FromList]
_Run = Annotated[tuple[str, int], _FromList]


def _part(ref: list[str | int]) -> list[str | int]:
    """An id, and the sentences of it."""
    if not [type(item) for item in ref[:2]] == [str, int] or str in map(type, ref[1:]):
        raise ValueError
    return ref


_Refs = list[str | Annotated[list[str | int], AfterValidator(_part)]]
_Pin = (
    Annotated[tuple[str, _Refs], _FromList]
    | Annotated[tuple[str, _Refs, list[list[str]]], _FromList]
    | Annotated[tuple[str, _Refs, list[list[str]], int], _FromList]
)


class _Differing(BaseModel):
    """In what a host's message is not what its row says."""

    model_config = ConfigDict(strict=True)

    origin: str = ""
    error: bool = False
    protected: bool = False
    calls: list[str]
    call_id: str | None
    more_call_ids: list[str] = []


class _Archive(BaseModel):
    """What is walked through of an archive (`turns.report.archive`); what is missing is at its default."""

    model_config = ConfigDict(strict=True, extra="allow")

    hash: str
    estimator: str
    pruner: str
    config: str
    messages: _Known = (0, "")
    evidence: _Known = (0, "")
    line: list[_Run] = []
    system: list[Annotated[tuple[int, str, int], _FromList]] = []
    differs: dict[str, _Differing] = {}
    tokens: dict[str, int] = {}
    model: str = ""
    window: int | None = None
    extras: dict[str, int] = {}
    marks: Annotated[tuple[str | None, str | None, int], _FromList] = (None, None, 0)
    factor: float = 1.0
    by_hand: bool = False
    closed: bool = False
    bring: Annotated[tuple[str, list[str]], _FromList] | None = None
    documents: list[str] = []
    saved: dict[str, int] = {}
    credit: list[int] = []
    now: str = ""
    embedder: str = ""
    own_rules: int = 0
    materials: list[_Named] = []
    summaries: list[_Named] = []
    pins: list[_Pin] = []
    new_pins: list[_Pin] = []
    gone_pins: list[str] = []
    role: str = ""
    want: list[str] = []
    forms: dict[str, list[Any]] = {}
    contexts: dict[str, dict[str, Any]] = {}
    settings: dict[str, Any] | None = None  # `None` where it could not be redacted


class _Extra(BaseModel):
    model_config = ConfigDict(strict=True)

    replay: _Archive | None = None
    ratios: list[float] = []


_ATTEMPTS = TypeAdapter(list[dict[str, Any]])
_REPORT, _EXTRA = TypeAdapter(Report), TypeAdapter(_Extra)


def readable(row: TurnRow) -> TurnRow:
    """The turn; with `{"damaged": [fields], "errors": [DAMAGED]}` in the place of a report that is none."""
    wrong = _wrong(_ATTEMPTS, row.attempts, "attempts")
    if row.report:
        wrong += _wrong_fields(row.turn_id, row.report)
    if not wrong:
        return row
    damaged = {"damaged": list(dict.fromkeys(wrong)), "errors": [DAMAGED]}
    return replace(row, attempts=[] if "attempts" in wrong else row.attempts, report=damaged)


def damaged_fields(row: TurnRow) -> Sequence[str]:
    """The fields at which a turn's report, as `readable` gives it, is damaged; nothing if it is not."""
    fields = row.report.get("damaged", ()) if DAMAGED in row.report.get("errors", ()) else ()
    return fields if isinstance(fields, list) else ()


def _wrong_fields(turn_id: str, report: object) -> list[str]:
    if not isinstance(report, dict) or "damaged" in report:
        return ["report"]
    names = _wrong(_REPORT, {"turn_id": turn_id, **report}, strict=True)
    return names or _wrong(_EXTRA, report.get("extra", {}), "extra")


def _wrong(
    shape: TypeAdapter[Any], value: Any, name: str = "", *, strict: bool | None = None
) -> list[str]:
    """The names of our own fields at which a value does not fit; keys in it are anybody's words."""
    try:
        shape.validate_python(value, strict=strict)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        places = [detail["loc"] for detail in errors if detail["type"] != _NEWER]
        # A name that is no Unicode text stands at no place.
        return [name or (str(place[0]) if place else "report") for place in places]
    return []
