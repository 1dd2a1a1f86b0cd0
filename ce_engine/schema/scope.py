"""Whose data it is: the key of everything that is stored."""

from __future__ import annotations

from dataclasses import dataclass

from ce_engine.errors import SchemaValidationError, ScopeViolationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Who is speaking, in which session.

    `key` (account, user, session) keys all stored data; the others are attributes. No user is
    the user `""`: an exact match, never a wildcard (B-03).
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
            check_encodable(name, getattr(self, name))

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


def check_encodable(name: str, given: object) -> None:
    """See that an id can be written down: in a store, in a URL, on a terminal.

    Raises:
        SchemaValidationError: it has half of a surrogate pair, which is no character.
    """
    if not isinstance(given, str) or given.isascii():
        return
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise SchemaValidationError(
            f"{name} has half of a surrogate pair at place {error.start}, which is no character and "
            "cannot be written down. Make the id of whole characters: "
            f'{name}.encode("utf-16", "surrogatepass").decode("utf-16", "replace")'
        ) from None


def as_scope(session: Scope | str) -> Scope:
    """The scope itself; an id alone means the session of no account and no user.

    Raises:
        SchemaValidationError: it is neither.
    """
    if isinstance(session, Scope):
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
