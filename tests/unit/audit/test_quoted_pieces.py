"""What stands quoted before earlier questions is told turn by turn, though several of them begin with the same text."""

from __future__ import annotations

from ce_engine.audit.places.quoted_pieces import quoted_pieces
from ce_engine.schema.rows import TurnRow


def test_pieces_before_several_questions_that_begin_with_the_same_text_are_all_there() -> None:
    pins = [
        ["q1", [["letter", 0, 1], "fee"]],
        ["q2", [["letter", 0], "gate"]],
        ["q3", ["bylaw"]],
        ["q4", [["letter", 2, 4]]],
        ["q5", ["site", "date", "ridge"]],
    ]
    stands = {"action": "kept", "reason": "there_already"}
    decisions = [
        {"block_id": "m:letter", "count": 4, **stands},
        {"block_id": "e:bylaw", **stands},
        {"block_id": "m:letter", "count": 4, **stands},
    ]
    report = {"extra": {"replay": {"pins": pins}}, "prune_decisions": decisions}
    found = quoted_pieces(TurnRow("t", report=report), ())
    assert found == {
        "letter": True,
        **dict.fromkeys(("fee", "gate", "bylaw", "site", "date", "ridge"), False),
    }
