"""Constraints: what every chat call of an owner in a project must be told, and may not break (D-06)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from hmac import compare_digest
from typing import Any, Protocol, TypeVar

from ce_engine.config import RuntimeConfig
from ce_engine.errors import (
    ConstraintLimitError,
    ConstraintNotFoundError,
    RedactionError,
    SchemaValidationError,
    VersionConflictError,
)
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.ports.redaction import Redactor, RedactResult, SessionRedactor
from ce_engine.ports.store import Store
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.workers import Workers
from ce_engine.schema.arguments import doors
from ce_engine.schema.enums import Priority
from ce_engine.schema.ids import Fingerprinter, chain_keys
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.rows import Placeholder
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.settings import CONSTRAINTS, KIND, MAX_KIND_CHARS, Constraint, Standing
from ce_engine.schema.time_limits import within
from ce_engine.sessions.owner.settings import SettingsCache, forgery_error, in_order, parsed


T = TypeVar("T")
Items = list[Constraint]
Redact = Callable[[str], RedactResult]
MAX_CHARS = 4000
OWN = (Priority.MUST, Priority.HIGH)
DERIVED = (Priority.MEDIUM, Priority.LOW)
"""All of them below the user's own: those stay longer when room is short."""


class Parts(Protocol):
    """What is needed of the engine."""

    store: Store
    config: RuntimeConfig
    loop: LoopThread
    workers: Workers
    redactor: Redactor
    clock: Clock
    ids: IdGenerator


@doors
class Constraints:
    """Lists and changes the constraints of (account, user, project); the session does not matter.

    They are stored redacted, as everything, and what is stored is what goes out, in every process
    and after every restart: a constraint that names a mail address tells the model `[EMAIL_1]`, and
    `Constraint.redacted` says so. The placeholder is the constraints' own: it is not the session's of
    this name. So word them without what the redactor takes out.

    Changes of one engine follow each other. Where another process is faster, a change is tried once
    more; the changes of both stand.

    Raises:
        StoreUnavailableError: the store does not answer.
        VersionConflictError: another process was faster, twice.
    """

    def __init__(self, settings: SettingsCache, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts

    async def list(
        self, scope: Scope | str, *, kind: str | None = None, forged: bool = False
    ) -> Sequence[Constraint]:
        """All of them, or those of a kind, in the order in which they go out.

        Args:
            scope: their owner and project.
            kind: only those of this kind.
            forged: also such as are not what was set, and go out in no call: to look at them.

        Raises:
            SettingForgedError: they are such.
        """
        setting = await self._parts.loop.share(self._settings.get(as_scope(scope), CONSTRAINTS))
        if setting is not None and setting.standing is Standing.FORGED and not forged:
            raise forgery_error(CONSTRAINTS)
        items = in_order(parsed(setting.value)[0]) if setting is not None else []
        return items if kind is None else [item for item in items if item.kind == kind]

    async def create(
        self,
        scope: Scope | str,
        text: str,
        *,
        derived: bool = False,
        priority: Priority | None = None,
        kind: str = "",
    ) -> Constraint:
        """Add a constraint; without a `priority`, the higher one that it may have.

        Args:
            scope: its owner and project.
            text: what must be, in words.
            derived: found by a program, not said by the user.
            priority: `must` or `high`; of a derived one `medium` or `low`.
            kind: what it is about, a word without digits: `style`, `plot`, `角色`.

        Raises:
            ConstraintLimitError: there are `collect.max_constraints` already.
            SchemaValidationError: the text is empty or too long (`MAX_CHARS`), or a derived one is to outrank the user's own.
            RedactionError: the redactor failed, so that the text cannot be stored.
        """
        priority, kind = _checked(priority, derived=derived), _checked_kind(kind)

        def add(items: Items, redacted: Redact) -> Constraint:
            most = self._parts.config.collect.max_constraints
            if len(items) >= most:
                raise ConstraintLimitError(
                    f"there are {len(items)} constraints, at most {most} are allowed. Delete some, "
                    "or raise collect.max_constraints."
                )
            done, now = redacted(text), self._parts.clock.now_iso()
            constraint = Constraint(
                constraint_id=self._parts.ids.generate(),
                text=done.text,
                derived=derived,
                priority=priority,
                created_at=now,
                updated_at=now,
                redacted=done.count,
                kind=kind,
            )
            items.append(constraint)
            return constraint

        return await self._change(as_scope(scope), add)

    async def update(
        self,
        scope: Scope | str,
        constraint_id: str,
        *,
        text: str | None = None,
        priority: Priority | None = None,
        kind: str | None = None,
    ) -> Constraint:
        """Change a constraint's text, priority or kind; its place among its equals stays.

        Raises:
            ConstraintNotFoundError: this owner has none of this id in the project.
            SchemaValidationError: as with `create`.
            RedactionError: as with `create`.
        """

        def edit(items: Items, redacted: Redact) -> Constraint:
            place = _find(items, constraint_id)
            old = items[place]
            update: dict[str, Any] = {"updated_at": self._parts.clock.now_iso()}
            if text is not None:
                done = redacted(text)
                update |= {"text": done.text, "redacted": done.count}
            if priority is not None:
                update["priority"] = _checked(priority, derived=old.derived)
            if kind is not None:
                update["kind"] = _checked_kind(kind)
            items[place] = old.model_copy(update=update)
            return items[place]

        return await self._change(as_scope(scope), edit)

    async def delete(self, scope: Scope | str, constraint_id: str) -> None:
        """Delete a constraint.

        Raises:
            ConstraintNotFoundError: this owner has none of this id in the project.
        """

        def remove(items: Items, _: Redact) -> None:
            del items[_find(items, constraint_id)]

        await self._change(as_scope(scope), remove)

    async def accept(
        self,
        scope: Scope | str,
        constraint_ids: Sequence[str],
        *,
        shown: Sequence[Constraint] | str,
    ) -> Sequence[Constraint]:
        """Have these of the stored ones hold as set from now on, and delete the others.

        For constraints that were forged, or that an older release wrote without MACs, once a person has
        looked at them. What has come into their place since is not accepted with them.

        Args:
            scope: their owner and project.
            constraint_ids: of those that are right; with none, all are deleted.
            shown: all that the person was shown, `list(scope, forged=True)`; or the digest of it that
                `ce constraints list --all` prints.

        Raises:
            VersionConflictError: what is stored now is not what was shown: nothing was changed.
            ConstraintNotFoundError: one of them is not stored of this owner in the project.
        """
        owner = as_scope(scope)

        def keep(items: Items, _: Redact) -> Sequence[Constraint]:
            secret = self._parts.store.secret
            digest = shown if isinstance(shown, str) else shown_digest(secret, owner, shown)
            if not compare_digest(
                digest.encode(errors="replace"), shown_digest(secret, owner, items).encode()
            ):
                raise VersionConflictError(
                    "what is stored as constraints now is not what was shown: somebody changed it meanwhile, "
                    "or it was of another user or project. Look again: ce constraints list --all"
                )
            accepted_ids = {
                items[_find(items, constraint_id)].constraint_id for constraint_id in constraint_ids
            }
            items[:] = [item for item in items if item.constraint_id in accepted_ids]
            return in_order(items)

        return await self._change(owner, keep, accepts=True)

    async def _change(
        self, scope: Scope, change: Callable[[Items, Redact], T], *, accepts: bool = False
    ) -> T:
        result: list[T] = []

        def apply_change(value: Any) -> Any:
            items, placeholders = _spoilt_or(value) if accepts else parsed(value)
            redactor = self._bound(scope, placeholders)
            seconds = self._parts.config.redaction.timeout_s
            result[:] = [change(items, lambda text: _redacted(redactor, text, seconds))]
            placeholders += redactor.learned() if redactor is not None else []
            return {
                "items": [item.model_dump(mode="json") for item in items],
                "placeholders": [
                    (placeholder.label, placeholder.mac.hex(), placeholder.number)
                    for placeholder in placeholders
                ],
            }

        async def changed(value: Any) -> Any:
            return await self._parts.workers.run(lambda: apply_change(value))

        work = self._settings.change(scope, CONSTRAINTS, changed, accepts=accepts)
        await self._parts.loop.share(work)
        return result[0]

    def _bound(self, scope: Scope, placeholders: Sequence[Placeholder]) -> SessionRedactor | None:
        """The redactor under a key of the owner's own in the project; none where it is switched off."""
        if not self._parts.config.redaction.enabled:
            return None
        owner = Scope.of_stored(scope.account_id, scope.user_id, CONSTRAINTS)
        key = Fingerprinter(self._parts.store.secret, scope.project_id.encode(), owner).key
        return self._parts.redactor.bind(key, placeholders, self._parts.config.locale)


def shown_digest(secret: bytes, scope: Scope, constraints: Sequence[Constraint]) -> str:
    """What names all constraints of an owner in a project as they were shown, under the install's secret.

    So it may be short: who could try out texts that have the same one has the secret.
    """
    items = [item.model_dump(mode="json") for item in in_order(constraints)]
    key = chain_keys(secret, (scope.account_id, scope.user_id, "")).own
    text = canonical_json([scope.project_id, items]).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=key, digest_size=8, person=b"shown").hexdigest()


def _spoilt_or(value: Any) -> tuple[Items, list[Placeholder]]:
    """The stored constraints, nothing where somebody made them what is none: who accepts does without them."""
    try:
        return parsed(value)
    except SchemaValidationError:
        return [], []


def _redacted(redactor: SessionRedactor | None, text: str, seconds: float) -> RedactResult:
    if not text.strip() or len(text) > MAX_CHARS:
        raise SchemaValidationError(
            f"the constraint has {len(text.strip())} characters, expected 1 to {MAX_CHARS}"
        )
    clean = text.strip().encode("utf-8", "replace").decode("utf-8")
    if redactor is None:
        return RedactResult(clean)
    try:
        with within(seconds):
            return redactor.text(clean)
    except Exception as error:  # noqa: BLE001 - a redactor of somebody else's may raise anything
        raise RedactionError(
            f"the redactor failed ({type(error).__name__}), so the constraint was not stored"
        ) from None


def _checked(priority: Priority | None, *, derived: bool) -> Priority:
    allowed = DERIVED if derived else OWN
    if priority is None:
        return allowed[0]
    if priority not in allowed:
        subject = "a derived constraint" if derived else "a constraint of the user's own"
        names = " or ".join(repr(str(option)) for option in allowed)
        raise SchemaValidationError(f"{subject} was given {str(priority)!r}, expected {names}")
    return Priority(priority)


def _checked_kind(kind: str) -> str:
    if len(kind) > MAX_KIND_CHARS or not re.fullmatch(KIND, kind):
        raise SchemaValidationError(
            f"a constraint's kind is a word of at most {MAX_KIND_CHARS} letters, parted by - or _ "
            "(style, plot-twist, 角色): nothing in it is redacted. Put everything else into its text"
        )
    return kind


def _find(items: Sequence[Constraint], constraint_id: str) -> int:
    for place, item in enumerate(items):
        if item.constraint_id == constraint_id:
            return place
    raise ConstraintNotFoundError(
        f"there is no constraint {constraint_id!r} of this user in this project; "
        "`ce constraints list` shows them"
    )
