"""Collects what goes into a call beside its messages: constraints, and what sources know (E-01, D-09 to D-11)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from ce_engine.config import RuntimeConfig
from ce_engine.errors import InputTooLargeError, StoreUnavailableError
from ce_engine.ports.context import ContextPiece, ContextSource
from ce_engine.prepare.blocks.material import LAYERS, CollectedContext, Material
from ce_engine.prepare.choose.sharing import InputShare, share_of
from ce_engine.schema.call import ModelCall
from ce_engine.schema.degradation import SETTING_UNVERIFIED
from ce_engine.schema.enums import Layer, Origin, Priority
from ce_engine.schema.settings import CONSTRAINTS, Constraint
from ce_engine.sessions.owner.settings import BUDGET, OwnerValues, SettingsCache
from ce_engine.sessions.view import SessionView
from ce_engine.text.redaction.spelled_out import lettered
from ce_engine.text.tokens.call_tokens import FALLBACK
from ce_engine.turns.input.final_answers import final_results
from ce_engine.turns.input.source_fetch import UNAVAILABLE, FetchResult, SourceFetcher


VIOLATION, TOO_LARGE = "CONTEXT_SCOPE_VIOLATION", "CONTEXT_INPUT_TOO_LARGE"
RULES = "framework__context"
RULE = "c:"
"""What the ids of an owner's rules begin with, as material."""
CHARS_A_TOKEN = 8
"""More than a token has in any text worth reading."""

security = logging.getLogger("ce_engine.security")

_IMPORTANCE = list(Priority)
_SECTIONS = list(LAYERS)


class Collector:
    """Collects for one call at a time. What it gives is for that call alone and is never stored."""

    def __init__(self, settings: SettingsCache, sources: Sequence[ContextSource]) -> None:
        self._settings = settings
        self._fetching = SourceFetcher(sources)

    async def fetch(self, call: ModelCall, config: RuntimeConfig) -> FetchResult:
        """Ask the sources, outside every lock."""
        share = _share(call, config)
        limit, deadline_s = config.prune.max_retrieved_chunks, config.collect.deadline_s
        return await self._fetching.fetch(
            call.scope, _query(call), limit, deadline_s, share.sections
        )

    async def owned(self, call: ModelCall, view: SessionView) -> OwnerValues:
        """What the owner set, as of now; without the store, as last known."""
        try:
            return await self._settings.owned(call.scope, view.settings)
        except StoreUnavailableError:
            return OwnerValues(warnings=[f"{UNAVAILABLE}: {CONSTRAINTS}"])

    async def gather(
        self,
        call: ModelCall,
        config: RuntimeConfig,
        view: SessionView,
        base: CollectedContext,
        count: Callable[[str], int],
    ) -> tuple[RuntimeConfig, CollectedContext]:
        """All of it at once, with the budget that the owner set: for those who only look."""
        fetched = await self.fetch(call, config)
        owned = await self.owned(call, view)
        config = owned.budgeted(config)
        return config, self.collect(
            call, config, view, owned=owned, fetched=fetched, base=base, count=count
        )

    def collect(
        self,
        call: ModelCall,
        config: RuntimeConfig,
        view: SessionView,
        *,
        owned: OwnerValues,
        fetched: FetchResult,
        base: CollectedContext,
        count: Callable[[str], int],
    ) -> CollectedContext:
        """The materials of a call, the user's own constraints first, and what to warn of.

        Raises:
            InputTooLargeError: there is more than may be, with `fail="closed"`.
        """
        share, owned = _share(call, config), owned.trusted(config)
        warnings = [code for code in owned.warnings if _concerns(code, config, share)]
        materials = [*map(rule_material, owned.constraints), *base.materials]
        if config.colleagues == "results" and call.purpose == "chat":
            materials += final_results(call, view)
        tokens_by_id: dict[str, int] = {}
        for source, pieces in fetched.pieces:
            if foreign := [piece for piece in pieces if not _is_of(piece, call)]:
                warnings.append(f"{VIOLATION}: {source.name}")
                _tell(source.name, foreign, call, view)
            for piece in pieces:
                if _is_of(piece, call):
                    materials.append(fetched_material := _material(source, piece, view))
                    tokens_by_id[fetched_material.id] = piece.tokens or 0
        materials = share.of({material.id: material for material in materials}.values())
        within, left_out, too_large = _within(
            materials,
            config,
            lambda material: max(count(material.text), tokens_by_id.get(material.id, 0)),
        )
        if too_large and config.fail == "closed":
            raise InputTooLargeError(f'{"; ".join(too_large)}, and fail="closed" is set')
        warnings += [*fetched.warnings, *base.warnings]
        warnings += [f"{TOO_LARGE}: {advice}" for advice in too_large]
        return CollectedContext(within, warnings, base.degradations, left_out)


def _share(call: ModelCall, config: RuntimeConfig) -> InputShare:
    is_shared = config.enable_share_context and call.purpose == "chat"
    return share_of(call.role, call.want, enabled=is_shared)


def _concerns(code: str, config: RuntimeConfig, share: InputShare) -> bool:
    """Whether a warning about settings is about this call."""
    # It may be the one given.
    if code.startswith(SETTING_UNVERIFIED) and code.endswith(f": {BUDGET}"):
        return True
    is_of_budget = code == FALLBACK or code.endswith(f": {BUDGET}")
    return not config.budget_is_given if is_of_budget else RULES in share.sections


def rule_material(constraint: Constraint) -> Material:
    """A rule that an owner stored, as it goes out."""
    return Material(
        f"{RULE}{constraint.constraint_id}",
        RULES,
        lettered(constraint.text),
        CONSTRAINTS,
        constraint.priority,
        at=constraint.created_at,
        owned=not constraint.derived,
    )


def _query(call: ModelCall) -> str:
    """The task message's live text."""
    tasks = (host for host in reversed(call.messages) if host.origin is Origin.TASK)
    task = next(tasks, None)
    return task.message.content if task is not None else ""


def _is_of(piece: ContextPiece, call: ModelCall) -> bool:
    scope = call.scope
    return (
        piece.account_id in (None, scope.account_id)
        and piece.user_id in (None, scope.user_id)
        and piece.project_id in (None, scope.project_id)
    )


def _material(source: ContextSource, piece: ContextPiece, view: SessionView) -> Material:
    # A rule that a source has found never outranks one of the user's own.
    most = Priority.MEDIUM if source.section == RULES else Priority.HIGH
    # Ids are stored with decisions: a source's own might say what must not be stored.
    digest = view.fingerprinter.mac("material", piece.text)[:8].hex()
    # Half an emoji, where a source cut a text, would keep the host's own client from sending it.
    text = piece.text.encode("utf-8", "replace").decode("utf-8")
    return Material(
        f"{source.name}:{digest}",
        source.section,
        lettered(text),
        source.name,
        max(piece.priority, most, key=_IMPORTANCE.index),
        piece.score,
        piece.at,
        # An id that the session does not have leads nowhere, and might say what must not be stored.
        piece.evidence_id if piece.evidence_id in view.evidence else "",
        is_fetched=True,
        sensitivity=piece.sensitivity,
    )


def _tell(source: str, foreign: Sequence[ContextPiece], call: ModelCall, view: SessionView) -> None:
    """One line for whoever watches over security, in digests (D-14)."""

    def digest(*names: str | None) -> str:
        text = "\0".join(name if name is not None else "\1" for name in names)
        return view.fingerprinter.mac("scope", text)[:8].hex()

    scope = call.scope
    owners = {digest(p.account_id, p.user_id, p.project_id) for p in foreign}
    security.warning(
        "%s source=%s pieces=%d session=%s asked_for=%s offered=%s",
        VIOLATION,
        source,
        len(foreign),
        digest(scope.session_id),
        digest(scope.account_id, scope.user_id, scope.project_id),
        ",".join(sorted(owners)),
    )


def _within(
    materials: Sequence[Material], config: RuntimeConfig, cost: Callable[[Material], int]
) -> tuple[list[Material], list[Material], list[str]]:
    """The materials that may go in, and those that may not, in their order; and advice where there are more (D-11)."""
    advice: list[str] = []
    best = sorted(materials, key=_rank)
    left_out_ids: set[str] = set()
    for kind, group, most, cure in _kinds(best, config):
        if len(group) > most:
            advice.append(f"{len(group)} {kind}, {most} may be; {cure}")
            left_out_ids |= {material.id for material in group[most:]}
    most = config.collect.max_input_tokens
    left = [material for material in best if material.id not in left_out_ids]
    tokens = list(_prices(left, cost, most))
    if tokens and sum(tokens) > most:
        advice.append(
            f"about {sum(tokens)} tokens were collected, {most} may be; let sources answer fewer or shorter "
            "pieces"
        )
        room = most
        for material, price in zip(left, tokens, strict=True):
            if price > room:
                left_out_ids.add(material.id)
            else:
                room -= price
    within = [material for material in materials if material.id not in left_out_ids]
    return within, [material for material in best if material.id in left_out_ids], advice


def _kinds(
    best: Sequence[Material], config: RuntimeConfig
) -> Iterator[tuple[str, list[Material], int, str]]:
    """Materials that are bounded together, best first, with how many there may be and what to do about more."""
    rules = [material for material in best if material.source == CONSTRAINTS]
    yield "constraints", rules, config.collect.max_constraints, "delete some"
    most = config.prune.max_retrieved_chunks
    by_source: dict[str, list[Material]] = {"": []}
    for material in best:
        if LAYERS[material.section] is Layer.RETRIEVED:
            by_source[""].append(material)
        elif material.is_fetched:
            by_source.setdefault(material.source, []).append(material)
    for name, group in by_source.items():
        kind = f"pieces of {name}" if name else "retrieved pieces"
        yield kind, group, most, "search for less"


def _prices(
    materials: Sequence[Material], cost: Callable[[Material], int], most: int
) -> Iterator[int]:
    """What each costs; nothing where all together cannot be too much: a token has a byte at least.

    Only as much text is counted as could go in. Of what is beyond, its bytes are bound enough: a
    source that answers a whole library must not keep the engine counting.
    """
    sizes = [len(material.text.encode("utf-8", "replace")) for material in materials]
    left = CHARS_A_TOKEN * most
    for material, size in zip(materials, sizes, strict=True) if sum(sizes) > most else ():
        counted = len(material.text) <= left
        left -= len(material.text) if counted else 0
        yield cost(material) if counted else size


def _rank(material: Material) -> tuple[int, int, float]:
    """Best first: rules before the rest, then by priority and score."""
    section, priority = _SECTIONS.index(material.section), _IMPORTANCE.index(material.priority)
    return section, priority, -(material.score if material.score is not None else 0.0)
