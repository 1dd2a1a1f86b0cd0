"""Lines that say where a session's log stood, to be kept where who can write to the store cannot (B-01).

A line names no account, user or session, and holds no content: it may be given to anybody.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ce_engine.errors import ConfigError
from ce_engine.schema.events import Event
from ce_engine.schema.ids import chain_keys


_LINE = re.compile(
    r"ce-anchor/1 (?P<at>\S+) session=(?P<session>[0-9a-f]{32}) events=(?P<events>\d+) "
    r"head=(?P<head>c\d:[0-9a-f]{40}|-) content=(?P<content>[0-9a-f]{32}|-)"
)
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a log stood at a time.

    Attributes:
        session: a keyed name; the same in every line of the session.
        events: how many there were.
        head: the hash of the last one.
        content: the MAC of the content that the events tell of; empty where the store keeps none.
    """

    at: str
    session: str
    events: int
    head: str
    content: str

    def __str__(self) -> str:
        head, content = self.head or _NONE, self.content or _NONE
        return (
            f"ce-anchor/1 {self.at} session={self.session} events={self.events} head={head} "
            f"content={content}"
        )

    def is_at(self, other: Anchor) -> bool:
        """Whether the log stood at the same place."""
        state = self.session, self.events, self.head, self.content
        return state == (other.session, other.events, other.head, other.content)


def anchors_of(text: str) -> list[Anchor]:
    """The lines of a file of anchors; blank ones and those with a `#` are passed over, but for an anchor behind it.

    Raises:
        ConfigError: a line is none.
    """
    anchors = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or (line.startswith("#") and not _LINE.search(line)):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ConfigError(
                f"line {number} of the anchors is none: they were changed, or cut off. Where a run of `ce verify` broke "
                "off in it, take that line away"
            )
        words = match.groupdict()
        head, content = (words[name].removesuffix(_NONE) for name in ("head", "content"))
        anchors.append(Anchor(words["at"], words["session"], int(words["events"]), head, content))
    return anchors


def session_name(secret: bytes, scope_key: tuple[str, str, str]) -> str:
    """What anchors call a session; who has not the secret learns nothing by it."""
    own = chain_keys(secret, scope_key).own
    return hashlib.blake2b(key=own, digest_size=16, person=b"anchor").hexdigest()


def settings_name(secret: bytes, key: tuple[str, str, str]) -> str:
    """What anchors call the settings of an account's user in a project."""
    account_id, user_id, project_id = key
    own = chain_keys(secret, (account_id, user_id, "")).own
    project = project_id.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(project, key=own, digest_size=16, person=b"anchor-settings").hexdigest()


def setting_differences(anchors: Sequence[Anchor], now: Anchor) -> Iterator[str]:
    """Say where an owner's settings are not any more what these anchors of them tell of, once for each."""
    for anchor in anchors:
        when = f"the anchor of {anchor.at}"
        if anchor.events > now.events:
            yield f"{when} tells of {anchor.events} writes, {now.events} are there: an older state was put back"
        elif anchor.events == now.events and anchor.content != now.content:
            yield f"after {anchor.events} writes they are not what {when} tells of"
        elif anchor.content and not now.content:
            yield f"{when} tells of MACs, which were taken away"


def differences(
    anchors: Sequence[Anchor], events: Sequence[Event], trail: Mapping[int, str]
) -> Iterator[str]:
    """Say what is not any more what these anchors of the session tell of, once for each."""
    for anchor in anchors:
        number, when = anchor.events, f"the anchor of {anchor.at}"
        if number > len(events):
            yield f"{when} tells of {number} events, {len(events)} are there: an older state was put back"
        elif number and events[number - 1].hash != anchor.head:
            yield f"event {number} is not the one that {when} tells of"
        elif anchor.content and trail.get(number, anchor.content) != anchor.content:
            yield f"the content up to event {number} is not what {when} tells of"
