"""What agents of one session tell each other: their newest final answers, and nothing of how they came to them (B-16)."""

from __future__ import annotations

from ce_engine.prepare.blocks.material import Material
from ce_engine.schema.call import ModelCall
from ce_engine.schema.enums import Priority, Role
from ce_engine.sessions.view import SessionView


SOURCE = "colleagues"
BACK = 2_000
"""Of the newest messages of a session; an agent whose last answer is older has nothing new to tell."""


def final_results(call: ModelCall, view: SessionView) -> list[Material]:
    """The newest whole answer of each other line of the session, in the order of their lines."""
    material_by_lane: dict[str, Material] = {}
    for row in reversed(view.rows[-BACK:]):
        message, lane = row.message, row.lane_key
        is_final = message.role is Role.ASSISTANT and not message.tool_calls and message.content
        if not is_final or message.status or row.withheld or lane in (call.lane, *material_by_lane):
            continue
        name = message.author.id if message.author is not None else lane
        message_id = message.message_id or ""
        material_by_lane[lane] = Material(
            f"{SOURCE}:{message_id}",
            "knowledge__context",
            f"{name}: {message.content}" if name else message.content,
            SOURCE,
            Priority.HIGH,
            at=message.at or "",
            evidence_id=view.by_message.get(message_id, ""),
        )
    return [material_by_lane[lane] for lane in sorted(material_by_lane)]
