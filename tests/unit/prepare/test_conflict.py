"""Sources that disagree are settled or told, never passed over in silence (A-18)."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from ce_engine import Evidence, EvidenceSource, EvidenceType, RuntimeConfig, SourceKind
from ce_engine.config import ConflictStrategy
from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.choose.conflict import ConflictOutcome, settle_conflicts


def said(name: str, kind: SourceKind, told: object, at: str = "", **metadata: Any) -> Evidence:
    return Evidence(
        evidence_id=name,
        type=EvidenceType.OTHER,
        source=EvidenceSource(kind=kind, name=f"source of {name}"),
        content=told if isinstance(told, str) else json.dumps(told),
        metadata={"created_at": at, **metadata} if at else metadata,
    )


def settle(
    *evidences: Evidence, strategy: str = "keep_both_and_warn", **more: Any
) -> ConflictOutcome:
    materials = [Material(e.evidence_id, "knowledge__context", e.content, "test",
                          evidence_id=e.evidence_id) for e in evidences]  # fmt: skip
    found: Any = strategy
    return settle_conflicts(materials, evidences, found, **more)


TOOL = said("tool", SourceKind.TOOL, {"order": {"id": 7, "status": "paid"}}, "2026-01-01")
WIKI = said("wiki", SourceKind.RAG, {"order": {"status": "open"}}, "2026-02-01T00:00:00Z")


@pytest.mark.req("A-18")
@pytest.mark.parametrize(
    ("strategy", "stays", "resolution"),
    [
        ("prefer_tool_over_rag", ["tool"], "prefer_tool_over_rag"),
        ("prefer_latest_by_at", ["wiki"], "prefer_latest_by_at"),
        ("keep_both_and_warn", ["tool", "wiki", "conflicts"], "keep_both_and_warn"),
    ],
)
def test_a_field_on_which_two_sources_disagree(
    strategy: str, stays: list[str], resolution: str
) -> None:
    found = settle(TOOL, WIKI, strategy=strategy)
    assert [material.id for material in found.materials] == stays
    [record] = found.conflicts
    assert (record.evidence_ids, record.field_path) == (["tool", "wiki"], "$.order.status")
    assert record.resolution == resolution
    assert "paid" not in record.model_dump_json(), "a report holds no content"
    assert found.warnings == (["CONTEXT_EVIDENCE_CONFLICT"] if "conflicts" in stays else [])


@pytest.mark.req("A-18")
def test_the_note_says_who_says_what() -> None:
    note = settle(TOOL, WIKI).materials[-1]
    assert note.section == "knowledge__context"
    assert note.text.splitlines() == [
        "|# Sources disagree",
        "| order.status: paid (evidence tool, source of tool); open (evidence wiki, source of wiki)",
    ]
    assert "相互矛盾" in settle(TOOL, WIKI, locale="zh").materials[-1].text


@pytest.mark.req("A-18")
@pytest.mark.parametrize(
    ("other", "why"),
    [
        (said("b", SourceKind.RAG, {"order": {"id": 8, "status": "open"}}), "another order"),
        (said("b", SourceKind.RAG, {"order": {"id": "7", "status": " Paid"}}), "the same value"),
        (said("b", SourceKind.RAG, {"status": "open"}), "another field"),
        (said("b", SourceKind.RAG, {"status": "open", "order": {"id": 7}}), "a field of something else"),
        (said("b", SourceKind.RAG, "The status is open."), "no JSON"),
        (said("b", SourceKind.RAG, '{"order": {"status": "op'), "half a JSON"),
        (said("b", SourceKind.RAG, ["open"]), "no object"),
        (TOOL.model_copy(update={"evidence_id": "b", "content": '{"order": {"status": "open"}}'}),
         "the same source, later"),
    ],
)  # fmt: skip
def test_what_is_no_conflict(other: Evidence, why: str) -> None:
    found = settle(TOOL, other)
    assert (found.conflicts, len(found.materials)) == ([], 2), why


@pytest.mark.req("A-18")
@pytest.mark.parametrize("field", ["state", "Status", "created_at", "状态"])
def test_two_things_of_which_one_names_the_other_have_states_of_their_own(field: str) -> None:
    """An order is dispatched, and its invoice is unpaid; the total is of both."""
    order = {"order_id": "OR-5101", field: "dispatched", "total": 412.5}
    invoice = {"invoice_id": "IN-77", "order_id": "OR-5101", field: "unpaid", "total": 418}
    found = settle(said("o", SourceKind.TOOL, order), said("i", SourceKind.TOOL, invoice))
    assert [record.field_path for record in found.conflicts] == ["$.total"]
    copy = {"order_id": "OR-5101", field: "cancelled"}
    found = settle(said("o", SourceKind.TOOL, order), said("c", SourceKind.RAG, copy))
    assert [record.field_path for record in found.conflicts] == [f"$.{field}"]


@pytest.mark.req("A-18")
def test_the_note_says_which_of_several_things_it_is_about() -> None:
    """Two invoices with two amounts each: without its number nobody knows which of them is 18,820.60."""

    def paper(name: str, number: str, amount: float) -> Evidence:
        return said(
            name, SourceKind.TOOL, {"invoice_id": number, "amount": amount, "batchId": "B1"}
        )

    papers = [
        paper("erp-1", "FP-20326", 18820.6),
        paper("bank-1", "fp-20326", 18280.6),
        paper("erp-2", "FP-20327", 5),
        paper("bank-2", "FP-20327", 6),
    ]
    text = settle(*papers).materials[-1].text
    assert [line.partition(":")[0] for line in text.splitlines()[1:]] == [
        "| amount (invoice_id FP-20326, batchId B1)",
        "| amount (invoice_id FP-20327, batchId B1)",
    ]
    chinese = settle(*papers[:2], locale="zh").materials[-1].text
    assert "| amount（invoice_id FP-20326, batchId B1）：18820.6（" in chinese


@pytest.mark.req("A-18")
def test_nameless_objects_without_an_id_in_common_may_speak_of_anything() -> None:
    weather = said("a", SourceKind.TOOL, {"status": "ok", "degrees": 3})
    stock = said("b", SourceKind.RAG, {"status": "empty"})
    assert settle(weather, stock).conflicts == []


RECORD = {"patient_id": "P-1", "vet": "Dr. Lind", "weight_kg": 31.2}
CHART = {"patient_id": "P-1", "rx_id": "RX-5", "weight_kg": 28.6}


@pytest.mark.req("A-18")
@pytest.mark.parametrize(
    ("one", "other", "fields"),
    [
        (RECORD, CHART, ["$.weight_kg"]),
        ({**RECORD, "rx_id": "RX-5"}, CHART, ["$.weight_kg"]),
        ({**RECORD, "rx_id": "RX-6"}, CHART, []),
        # A booking and a sample of one patient: each is a thing of its own.
        ({**RECORD, "booking_id": "BK-3"}, CHART, []),
    ],
)
def test_what_two_objects_belong_to_does_not_make_them_one(
    one: dict[str, Any], other: dict[str, Any], fields: list[str]
) -> None:
    found = settle(said("a", SourceKind.TOOL, one), said("b", SourceKind.TOOL, other))
    assert [record.field_path for record in found.conflicts] == fields


@pytest.mark.req("A-18")
@pytest.mark.parametrize(
    ("text", "count"),
    [
        (str(CHART | {"by": "the nurse's", "until": None, "given": True}), 1),
        ("{'weight_kg': 28.6, 'patient_id': 'P-1'", 0),
        ("{'weight_kg': exit(1), 'patient_id': 'P-1'}", 0),
        ("{'greeting': {{'Biscuit'}}}", 0),
        ("{'a': {[1]: 2}}", 0),
        ("{'a': " + "[" * 3000 + "]" * 3000 + "}", 0),
    ],
)
def test_the_text_of_a_python_object_is_read_as_one(text: str, count: int) -> None:
    """LlamaIndex makes a tool's result a text that way."""
    found = settle(said("a", SourceKind.TOOL, RECORD), said("b", SourceKind.TOOL, text))
    assert len(found.conflicts) == count


@pytest.mark.req("A-18")
def test_a_field_can_be_declared_for_text_that_is_no_json() -> None:
    one = said("a", SourceKind.RAG, "退款需要 5 天。", field="退款期限", value="5 天")
    two = said("b", SourceKind.USER, "7 天", field="退款期限")
    found = settle(one, two, locale="zh")
    assert [record.field_path for record in found.conflicts] == ["退款期限"]
    assert "5 天" in found.materials[-1].text
    assert "7 天" in found.materials[-1].text


@pytest.mark.req("A-18")
@pytest.mark.parametrize(
    ("strategy", "evidences"),
    [
        ("prefer_tool_over_rag", [said("a", SourceKind.USER, {"id": 7, "x": 1}), WIKI]),
        ("prefer_tool_over_rag", [said("a", SourceKind.TOOL, {"id": 7, "x": 1}),
                                  said("b", SourceKind.TOOL, {"id": 7, "x": 2})]),
        ("prefer_tool_over_rag", [said("a", SourceKind.TOOL, {"id": 7, "x": 1}),
                                  said("b", SourceKind.USER, {"id": 7, "x": 2})]),
        ("prefer_latest_by_at", [said("a", SourceKind.TOOL, {"id": 7, "x": 1}, "2026-01-01"),
                                 said("b", SourceKind.RAG, {"id": 7, "x": 2})]),
        ("prefer_latest_by_at", [said("a", SourceKind.TOOL, {"id": 7, "x": 1}, "2026-01-01"),
                                 said("b", SourceKind.RAG, {"id": 7, "x": 2}, "yesterday")]),
        ("prefer_latest_by_at", [said("a", SourceKind.TOOL, {"id": 7, "x": 1}, "2026-01-01T00:00:00Z"),
                                 said("b", SourceKind.RAG, {"id": 7, "x": 2}, "2026-01-01")]),
    ],
)  # fmt: skip
def test_where_the_strategy_cannot_tell_both_stay_and_it_is_said(
    strategy: str, evidences: list[Evidence]
) -> None:
    if evidences[1] is WIKI:
        evidences = [evidences[0], said("b", SourceKind.RAG, {"id": 7, "x": 2})]
    found = settle(*evidences, strategy=strategy)
    assert [material.id for material in found.materials] == ["a", "b", "conflicts"]
    assert [record.resolution for record in found.conflicts] == ["keep_both_and_warn"]


@pytest.mark.req("A-18")
def test_what_goes_out_otherwise_disagrees_too_and_effective_at_counts() -> None:
    wiki = said("w", SourceKind.RAG, {"id": 7, "x": 1}, "2026-03-01", effective_at="2025-01-01")
    tool = said("t", SourceKind.TOOL, {"id": 7, "x": 2}, "2026-01-01")
    shown = [Material("m", "knowledge__context", "…", "test", evidence_id="w")]
    found = settle_conflicts(shown, [wiki, tool], "prefer_latest_by_at")
    assert (found.materials, len(found.conflicts)) == ([], 1)
    assert settle_conflicts([], [wiki, tool]).conflicts == [], "neither would go out anyway"


@pytest.mark.req("A-18", "A-22")
def test_the_strategy_is_configured() -> None:
    assert RuntimeConfig().conflicts == "keep_both_and_warn"
    for strategy in get_args(ConflictStrategy):
        assert RuntimeConfig(conflicts=strategy).conflicts == strategy


@pytest.mark.req("A-18")
def test_long_numbers_are_told_apart_to_their_last_digit() -> None:
    """Ids of 19 digits are common; as floats these two are one."""
    first = said("a", SourceKind.TOOL, {"order_id": 1234567890123456781, "status": "paid"})
    other = said("b", SourceKind.RAG, {"order_id": "1234567890123456782", "status": "open"})
    assert settle(first, other, strategy="prefer_tool_over_rag").conflicts == []
    same = said("c", SourceKind.RAG, {"order_id": "1234567890123456781", "status": "open"})
    [record] = settle(first, same).conflicts
    assert record.field_path == "$.status"


@pytest.mark.req("A-18")
@pytest.mark.parametrize(("one", "other"), [("12", 12.0), (1e3, "1000"), ("-0", 0), ("nan", "NaN")])
def test_equal_numbers_are_no_conflict(one: object, other: object) -> None:
    told = [{"order": {"total": value}} for value in (one, other)]
    pair = said("a", SourceKind.TOOL, told[0]), said("b", SourceKind.RAG, told[1])
    assert settle(*pair).conflicts == []


@pytest.mark.req("A-18")
@pytest.mark.parametrize("huge", ["1e999999999", "9" * 5000, "1e-999999999", "١٢"])
def test_odd_numbers_are_compared_too(huge: str) -> None:
    pair = (
        said("a", SourceKind.TOOL, {"order": {"total": huge}}),
        said("b", SourceKind.RAG, {"order": {"total": "5"}}),
    )
    assert len(settle(*pair).conflicts) == 1
