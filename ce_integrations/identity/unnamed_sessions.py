"""Sessions that nobody named: one a run, and what tells that a run goes on with an earlier one's."""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ce_engine import HostMessage, Message, Role
from ce_integrations.wrapping.bounded_maps import BoundedMap, ByIdentity


MAX_REMEMBERED = 10_000
"""Runs and answers without a session id that are remembered in this process."""

NEWEST = 16
"""Messages of a list, from its end, that are looked up."""

AMBIGUOUS = ""
"""In place of a session: an answer that several sessions were given."""

Messages = Callable[[], Sequence[HostMessage]]
Owner = tuple[str, str]
"""Account and user: what one of them said is never found for another."""

Name: TypeAlias = str | int
"""Of a message by the framework's id, or of the object that keeps them by a number."""


@dataclass(frozen=True, slots=True)
class Stateless:
    """The `conversation` of an agent that is handed all messages with each run, and keeps none of them.

    Such an agent has many conversations: a list goes on with the one whose answer is in it, and no run
    goes on with the newest one.
    """

    agent: object


class UnnamedSessions:
    """Of this process only, bounded; for recording and the cut: nothing is brought in (decision 9)."""

    def __init__(self) -> None:
        self.runs: BoundedMap[tuple[str, str, str], str] = BoundedMap(MAX_REMEMBERED)
        self.answers: BoundedMap[tuple[str, str, Name, bytes], str] = BoundedMap(MAX_REMEMBERED)
        self._early: BoundedMap[tuple[str, str, str], str] = BoundedMap(MAX_REMEMBERED)
        self._latest: BoundedMap[tuple[str, str, Name], str] = BoundedMap(MAX_REMEMBERED)
        self._numbers: ByIdentity[int] = ByIdentity()
        self._next = itertools.count(1)

    def number_of(self, conversation: object) -> int | None:
        """Names an object that is handed from run to run, as long as it lives.

        `None` where it cannot be held weakly: it might be another by then. Below zero where it keeps nothing.
        """
        if conversation is None:
            return None
        if isinstance(conversation, Stateless):
            number = self.number_of(conversation.agent)
            return None if number is None else -number
        if self._numbers.get(conversation) is None:
            self._numbers.put(conversation, next(self._next))
        return self._numbers.get(conversation)

    def forget(self, conversation: object) -> None:
        """It holds another talk from now on, or none: what comes next goes on with an answer or with nothing."""
        number = self._numbers.get(conversation)
        if number is not None:
            self._latest.forget(lambda key: key[-1] == number)

    def session_of(
        self,
        request_id: str,
        owner: Owner,
        messages: Messages,
        conversation: int | None = None,
        *,
        is_list: bool = True,
    ) -> str:
        """The session of a run: as before, else that of an answer in its list, else a fresh one.

        A list in which no answer is left was reset. Where a run with a `conversation` has not shown
        its list yet (there is a tool's run, or a prompt, not `is_list`), its newest session counts.
        """
        run = (*owner, request_id)
        if request_id and (known_session := self.runs.get(run)):
            return known_session
        listed, early, latest = messages(), self._early.get(run), None
        session = self._continued(owner, listed, conversation)
        if conversation is not None:
            latest = self._latest.get((*owner, conversation)) if conversation > 0 else None
            if session is None and not (listed and is_list):
                session_id = early or latest or _fresh()
                return self._early.put(run, session_id) if request_id else session_id
        if session is None and early != latest:
            session = early  # made for this run; the newest one's would be of before a reset
        session_id = session or _fresh()
        return self.runs.put(run, session_id) if request_id else session_id

    def remember(
        self,
        owner: Owner,
        session_id: str,
        message: Message,
        host_id: str | None,
        conversation: int | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        """Note an answer given in such a session, so that a list that holds it goes on with it.

        One that others were given too (by a cache, by a model that repeats its ids) tells nothing.
        """
        digest = _digest_of(message)
        if host_id:
            self._note((*owner, host_id, digest), session_id, is_shared=is_shared)
        if conversation is not None:
            self._note((*owner, conversation, digest), session_id)
        if conversation is not None and conversation > 0:
            self._latest.pop((*owner, conversation))
            self._latest.put((*owner, conversation), session_id)

    def _note(
        self, key: tuple[str, str, Name, bytes], session_id: str, *, is_shared: bool = False
    ) -> None:
        if self.answers.put(key, session_id) != session_id or is_shared:
            self.answers.pop(key)
            self.answers.put(key, AMBIGUOUS)

    def _continued(
        self, owner: Owner, messages: Sequence[HostMessage], conversation: int | None
    ) -> str | None:
        """The session of the newest message that is an answer of ours, a colleague's (a user) included."""
        hosts = (m for m in reversed(messages) if m.message.role in (Role.ASSISTANT, Role.USER))
        for host in itertools.islice(hosts, NEWEST):
            host_id = host.host_id if host.message.role is Role.ASSISTANT else None
            names = [name for name in (host_id, conversation) if name]
            digest = _digest_of(host.message) if names else b""
            for name in names:
                if session_id := self.answers.get((*owner, name, digest)):
                    return session_id
        return None


def _fresh() -> str:
    return f"run-{secrets.token_hex(16)}"


def _digest_of(message: Message) -> bytes:
    """Of an answer its words; of one that only calls tools, what it calls."""
    text = message.content
    if not text and message.tool_calls:
        text = json.dumps([[call.name, call.args] for call in message.tool_calls], default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


unnamed = UnnamedSessions()
