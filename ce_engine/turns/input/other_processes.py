"""What a turn of another process left in a lane: what stands before messages, and how the provider counted."""

from __future__ import annotations

from dataclasses import replace

from ce_engine.prepare.compose.render import Locale
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.stored_report import readable
from ce_engine.sessions.view import SessionView
from ce_engine.text.tokens import Calibration
from ce_engine.turns.input.stored_candidates import pins_again


def follow(view: SessionView, turn: TurnRow, locale: Locale) -> None:
    """Let a lane know what a turn of another process left in it, where that is archived.

    What stands before its messages is rendered once more of what is stored.
    """
    extra = readable(turn).report.get("extra", {})
    lane, archive = view.lane(turn.lane), extra.get("replay")
    if ratios := extra.get("ratios"):
        lane.calibration = Calibration.of(*ratios)
    if archive is None:
        return
    gone_pins = archive.get("gone_pins", ())
    stay = [pin for pin in archive.get("pins", ()) if pin[0] not in gone_pins]
    pins = pins_again(view, [*stay, *archive.get("new_pins", ())], locale)
    # The live values are the other process's: here placeholders go out.
    view.pin(turn.lane, {anchor: replace(pin, live=0) for anchor, pin in pins.items()})
    if archive.get("by_hand"):
        count, newest = archive.get("evidence", (0, ""))
        names = list(view.evidence)
        known_names = set(names[: names.index(newest) + 1 if newest in view.evidence else count])
        lane.documents = sum(name in known_names for name in view.documents)
