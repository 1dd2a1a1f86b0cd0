"""What an owner set for a project: named values with versions, beside all sessions (D-04, D-06)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import Field

from ce_engine.schema.document import Schema
from ce_engine.schema.enums import Priority


CONSTRAINTS = "constraints"
"""The name of an owner's constraints among the settings, and of their source."""


MAX_KIND_CHARS = 40
KIND = r"(?:[^\W\d_]+(?:[_-][^\W\d_]+)*)?"
"""A kind of constraints: letters, parted by `-` or `_`. No digits, no `@`: nothing that would have to be redacted."""


class Standing(StrEnum):
    """What the MACs of a setting say; what an older release wrote has none to say it by.

    A store of one's own without MACs decides: a `Setting` that is given no standing holds as set, and one that is
    `UNVERIFIED` goes out with a warning in each report, and not at all with `CollectConfig(only_verified=True)`.
    """

    INTACT = "intact"
    UNVERIFIED = "unverified"
    FORGED = "forged"


class Setting(NamedTuple):
    """A stored value, plain JSON data, and its version: 1 for the first, one more with each write."""

    value: Any
    version: int
    standing: Standing = Standing.INTACT


@dataclass(frozen=True, slots=True)
class SettingsCheck:
    """What a store's look at the MACs of what one owner set in one project found.

    Attributes:
        settings: how many there are; those that were deleted have a version still, and a MAC.
        versions: the sum of their versions, which only grows.
        mac: of all of them together; empty where there is none.
        wrong: what is not what was set, in words without content.
        unverified: what nothing can be said of, and why.
    """

    settings: int = 0
    versions: int = 0
    mac: str = ""
    wrong: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingsVerification:
    """What a look at all that one owner set in one project found (19 A.1).

    Attributes:
        settings: how many there are.
        wrong: what is not what was set, in words without content.
        unverified: what nothing can be said of, and why.
        anchor: the line for a file of anchors.
    """

    account_id: str
    user_id: str
    project_id: str
    settings: int
    wrong: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    anchor: str = ""

    @property
    def status(self) -> str:
        """`"tampered"`; else `"unverified"` (in part); else `"intact"`."""
        if self.wrong:
            return "tampered"
        return "unverified" if self.unverified else "intact"


class Versions(NamedTuple):
    """What one cheap read tells about a session and its owner.

    Attributes:
        version: the session's; 0 if there is none.
        epoch: moved by every write that is no append.
        settings: moved by every write to a setting of the same account, user and project; 0 if there
            never was one.
    """

    version: int = 0
    epoch: int = 0
    settings: int = 0


class Constraint(Schema):
    """A rule that goes out with every chat call of its owner in a project (D-06).

    Attributes:
        text: as it is stored and goes out: redacted.
        derived: found by somebody's program, not said by the user; it goes first when room is short.
        priority: `must` or `high` of the user's own, `medium` or `low` of derived ones.
        kind: what it is about, a word of the app's own, such as `style`, `character`, `情节`; `""` is none.
        redacted: how much was taken out of it; what a placeholder stands for is not kept anywhere.
    """

    constraint_id: str
    text: str
    derived: bool = False
    priority: Priority
    created_at: str
    updated_at: str
    redacted: int = 0
    kind: str = Field(default="", max_length=MAX_KIND_CHARS, pattern=rf"^{KIND}$")
