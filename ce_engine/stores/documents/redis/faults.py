"""What went wrong with a Redis server, in words that name the server and the cure."""

from __future__ import annotations

import ssl

from redis import exceptions

from ce_engine.errors import FileDamagedError, MigrationError, StoreError, StoreUnavailableError


_SAYINGS = {
    "OOM": (
        "is full: it has reached its maxmemory",
        "Give it more memory, or let sessions expire: ?expire=7d. What did not fit was not written.",
    ),
    "MISCONF": (
        "refuses writes: it cannot save to its disk",
        "Free some space there, and see the server's log.",
    ),
    "READONLY": ("is a replica, which takes no writes", "Name the primary server."),
    "LOADING": ("is loading its data", "Wait until it has started."),
    "NOPERM": (
        "does not let this user do what the store needs",
        "Let its ACL allow ~PREFIX:* +@read +@write +@scripting +@connection.",
    ),
    "MOVED": ("is part of a cluster", "Name a server that is none: clusters are not supported."),
    "WRONGTYPE": (
        "has keys of somebody else under the store's prefix",
        "They were left as they are: name another prefix, ?prefix=mine.",
    ),
}
_CODES = {
    exceptions.ReadOnlyError: "READONLY",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.MovedError: "MOVED",
}
_CERTIFICATE = (
    "and this process do not agree on TLS: its certificate is not trusted here, names another host, or is none",
    "Write the host as its certificate names it, with ?ca_certs=/path/ca.pem, or redis:// where there is no TLS.",
)
_NO_FILE = (
    "cannot be asked by TLS: a file of ca_certs, certfile or keyfile is not there",
    "Correct its path in the URL.",
)
_PASSWORD = (
    "does not accept the user or password",
    "Put them into the URL: redis://user:password@host/0.",
)


def explain(error: exceptions.RedisError, server: str, *, of_one: bool = False) -> StoreError:
    """The error that the caller gets for one of the driver's; what the server said is not repeated.

    `of_one`: the command was about the keys of one session or owner.
    """
    if of_one and _code(error) == "WRONGTYPE":
        return damaged(server, "its key is of another type, and somebody else's")
    if isinstance(
        error, exceptions.AuthenticationError | exceptions.AuthenticationWrongNumberOfArgsError
    ):
        problem, cure = _PASSWORD
    elif (code := _code(error)) in _SAYINGS:
        problem, cure = _SAYINGS[code]
    elif _has_cause(error, ssl.SSLError):
        problem, cure = _CERTIFICATE
    elif _has_cause(error, FileNotFoundError):
        problem, cure = _NO_FILE
    elif isinstance(error, exceptions.TimeoutError):
        problem, cure = "does not answer", "See that it runs, and that its host can be reached."
    elif isinstance(error, exceptions.ConnectionError):
        problem, cure = "cannot be reached", "Start it, or name another: redis://host:6379/0."
    else:
        return StoreError(
            f"the Redis server {server} refused a command ({code or type(error).__name__}); version 6.2 "
            "or newer is needed"
        )
    return StoreUnavailableError(f"the Redis server {server} {problem}. {cure}")


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether an error of this kind led to this one."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error is not None


def _code(error: exceptions.RedisError) -> str:
    """The word that the server's error begins with."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    word = str(error).partition(" ")[0]
    if word == "NOAUTH":
        return word
    # A script's error carries that of its command inside.
    return next((word for word in _words(error) if word in _SAYINGS), "")


def _words(error: exceptions.RedisError) -> list[str]:
    return [word.lstrip("-") for word in str(error)[:300].split()]


def busy(server: str, waited_s: float) -> StoreUnavailableError:
    """Say that others were always faster."""
    return StoreUnavailableError(
        f"the Redis server {server} has a session that others write to without a pause (waited "
        f"{waited_s:g} s). Write to it from fewer processes."
    )


def damaged(server: str, why: object) -> FileDamagedError:
    """Say that what is under a key is not what was written; `why` holds no content."""
    return FileDamagedError(
        f"the Redis server {server} has a damaged record ({why}). It was left as it is: restore a backup, "
        "or delete its key."
    )


def newer(server: str, format_: object, known_format: int) -> MigrationError:
    """Say that a later release wrote a session."""
    return MigrationError(
        f"the Redis server {server} has a session of format {format_!r}; this release knows {known_format}. It "
        "was left as it is: use the release of ce-integrations that wrote it, or a newer one."
    )


def other_secret(server: str, mark: str) -> StoreUnavailableError:
    """Say that this host would write what the others take for forged."""
    return StoreUnavailableError(
        f"the Redis server {server} has sessions of another CE_SECRET than this process has. Set it to the "
        f"same text on all hosts; if the old one is lost, delete the key {mark!r}: what was recorded with "
        "it cannot be verified any more."
    )


def not_purged(server: str, why: str) -> StoreUnavailableError:
    """Say that deleted bytes may still be in the server's files."""
    return StoreUnavailableError(
        f"the Redis server {server} could not write its files anew ({why}): what was deleted may still "
        "stand in them. Let this user run INFO, CONFIG GET, BGREWRITEAOF and BGSAVE, or run those by "
        "hand and delete the key that ends in ':purge'."
    )
