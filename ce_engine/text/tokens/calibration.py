"""A lane's correction of estimates that proved too low, from the usage that providers report."""

from __future__ import annotations


CALIBRATION_WINDOW = 16
"""Calls that are looked back on."""

CALIBRATION_MIN_TOKENS = 200
"""Calls that were estimated smaller say more about framing than about text."""

MAX_CALIBRATION = 2.0
"""What providers add of their own (hidden prompts, images) must not eat the whole budget."""


class Calibration:
    """The factor by which a lane's estimates were too low, at worst, in its last calls (decision 11).

    It never lowers an estimate, and an exact count is left alone. Threads may share it.
    """

    def __init__(self) -> None:
        self._ratios: tuple[float, ...] = ()

    @classmethod
    def of(cls, *ratios: float) -> Calibration:
        """One that has found these ratios, the oldest first."""
        calibration = cls()
        calibration._ratios = ratios[-CALIBRATION_WINDOW:]
        return calibration

    @property
    def ratios(self) -> list[float]:
        """What was found of the last calls, the oldest first, to three digits."""
        return [round(ratio, 3) for ratio in self._ratios]

    def observe(self, estimated: int, actual: int) -> None:
        """Take note of a call: the tokens of its input as estimated, uncorrected, and as used."""
        if estimated >= CALIBRATION_MIN_TOKENS:
            self._ratios = (*self._ratios, actual / estimated)[-CALIBRATION_WINDOW:]

    @property
    def factor(self) -> float:
        """From 1 to `MAX_CALIBRATION`."""
        return min(MAX_CALIBRATION, max(1.0, *self._ratios)) if self._ratios else 1.0
