"""Whose data it is: the key of everything that is stored."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from uuid import UUID

from ce_engine.errors import SchemaValidationError, ScopeViolationError


MOST_ID_BYTES = 512
"""Of an id in UTF-8: three of them, and a name, go into an entry of PostgreSQL's indexes, which has 2,700."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Who is speaking, in which session.

    `key` (account, user, session) keys all stored data; the others are attributes. No user is
    the user `""`: an exact match, never a wildcard (B-03). Numbers and UUIDs are
    the ids that they are as texts. Each has at most 512 bytes in UTF-8.
    """

    session_id: str
    user_id: str = ""
    account_id: str = ""
    project_id: str = ""
    agent_id: str = ""
    trace_id: str = ""

    def __post_init__(self) -> None:
        if self.session_id in ("", None):
            raise SchemaValidationError("a scope needs a session_id; found an empty one")
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, str):
                object.__setattr__(self, name, _as_text(value))
            check_encodable(name, value)

    @classmethod
    def of_stored(
        cls, account_id: str, user_id: str, session_id: str, project_id: str = ""
    ) -> Scope:
        """That of a session that is stored: an older release took ids that are refused now."""
        scope = object.__new__(cls)
        values = {"account_id": account_id, "user_id": user_id, "session_id": session_id}
        for name in cls.__slots__:
            object.__setattr__(scope, name, values.get(name, ""))
        object.__setattr__(scope, "project_id", project_id)
        return scope

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.account_id, self.user_id, self.session_id)


def _as_text(value: object) -> object:
    """A number or a UUID as a text, `None` as nobody; anything else as it is."""
    if value is None:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return str(value) if is_number or isinstance(value, UUID) else value


def check_text(name: str, value: object) -> None:
    """See that an id is a text: what is none would be found in no store.

    Raises:
        SchemaValidationError: it is none.
    """
    if not isinstance(value, str):
        raise SchemaValidationError(
            f"{name} is a {type(value).__name__}, expected a text, a number or a UUID"
        )


def check_encodable(name: str, value: object) -> None:
    """See that an id can be written down: in every store, in a URL, on a terminal.

    Raises:
        SchemaValidationError: it has half of a surrogate pair, which is no character, or more than `MOST_ID_BYTES`.
    """
    if not isinstance(value, str):
        return
    try:
        count = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as error:
        raise SchemaValidationError(
            f"{name} has half of a surrogate pair at place {error.start}, which is no character and "
            "cannot be written down. Make the id of whole characters: "
            f'{name}.encode("utf-16", "surrogatepass").decode("utf-16", "replace")'
        ) from None
    if count > MOST_ID_BYTES:
        raise SchemaValidationError(
            f"{name} has {count} bytes, and the most are {MOST_ID_BYTES}, which every store takes. Give a shorter "
            f"one, or a hash of it: hashlib.sha256({name}.encode()).hexdigest()"
        )


def is_whole(session_id: object) -> bool:
    """Whether it can be a session's id at all."""
    try:
        check_encodable("session_id", session_id)
    except SchemaValidationError:
        return False
    return isinstance(session_id, str) and bool(session_id)


def as_scope(session: Scope | str) -> Scope:
    """The scope itself; an id alone means the session of no account and no user.

    Raises:
        SchemaValidationError: it is neither.
    """
    if isinstance(session, Scope):
        for name in session.__slots__:
            check_text(name, getattr(session, name))
        return session
    if isinstance(session, str):
        return Scope(session_id=session)
    raise SchemaValidationError(
        f"a session is named by its id, a text, or by Scope(session_id=..., user_id=...); found "
        f"{type(session).__name__}"
    )


def check_project(scope: Scope, owner: str) -> None:
    """See that a session is read from the project that made it (D-10).

    Raises:
        ScopeViolationError: it is another one.
    """
    if scope.project_id != owner:
        raise ScopeViolationError(
            f"session {scope.session_id!r} belongs to project {owner!r}, and was asked for from "
            f"{scope.project_id!r}. Use another session id for another project."
        )
