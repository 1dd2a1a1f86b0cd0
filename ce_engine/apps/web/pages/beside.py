"""A turn beside one of another session: where two frameworks, models or settings differ for the same question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby, islice

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.present.cost_lines import SessionCosts, turn_lines
from ce_engine.apps.present.language import Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.output import moment, number, percent
from ce_engine.apps.present.report_lines import sent_words
from ce_engine.apps.present.side_by_side import (
    NOWHERE,
    Pair,
    Side,
    counterpart,
    pairs,
)
from ce_engine.apps.present.timeline import TITLES, timeline
from ce_engine.apps.web.index import ROUNDS, Line
from ce_engine.apps.web.page import index_of, page, reader_of, taste_of
from ce_engine.apps.web.reading import Reader
from ce_engine.apps.web.stored_turn import MadeAgain, StoredTurn, made_again, stored_turn
from ce_engine.audit.compare.costs import is_free
from ce_engine.audit.compare.reading import calls_of
from ce_engine.audit.places.message_places import LEFT_OUT, QUOTED
from ce_engine.schema.rows import SessionInfo
from ce_engine.schema.scope import Scope


MOST_SESSIONS = 50
"""Sessions that are offered, the newest ones."""

FATES = {
    QUOTED: "quoted there before a question",
    LEFT_OUT: "left out there",
    NOWHERE: "no message there says so",
}
"""What became, in the other turn, of a message that one turn alone sends."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which turn of which session stands beside the page's own."""

    user: str
    session: str
    turn: str

    @classmethod
    def of(cls, request: Request) -> Choice | None:
        """What is asked for; `None` where nobody has chosen yet."""
        query = request.query_params
        name = query.get("with", "").strip()
        user = query.get("with_user", query.get("user", "")).strip()
        return cls(user, name, query.get("with_turn", "").strip()) if name else None


async def beside(request: Request) -> Response:
    """Both turns; without another session those that can be chosen."""
    reader, query, say = reader_of(request), request.query_params, taste_of(request).language
    scope = await reader.scope(query.get("user", ""), query.get("id", ""), "ui beside")
    with reader.looking("ui beside", "read", scope):
        record = await stored_turn(reader, scope, query.get("turn", ""), query.get("question"))
        again = await made_again(reader, record, say)
    choice = Choice.of(request)
    if choice is None:
        offered = await _offered(request, scope)
        return page(request, "beside_choice.html", scope=scope, turn=record.at + 1, offered=offered)
    other_scope = await reader.scope(choice.user, choice.session, "ui beside")
    with reader.looking("ui beside", "read", other_scope):
        other = await _chosen_turn(reader, record, other_scope, choice.turn)
        other_again = await made_again(reader, other, say)
    both = await asyncio.to_thread(_pairs, (record, again), (other, other_again))
    return page(
        request,
        "beside.html",
        scope=scope,
        turn=record.at + 1,
        turn_count=len(record.turns),
        other_scope=other_scope,
        other_turn=other.at + 1,
        other_count=len(other.turns),
        figures=_figures(
            dict(_facts(reader, record, again, say)), dict(_facts(reader, other, other_again, say))
        ),
        problems=[problem for problem in (again.problem, other_again.problem) if problem],
        is_other=any(
            side.replay is not None and not side.replay.same_choice for side in (again, other_again)
        ),
        runs=[(is_same, [*run]) for is_same, run in groupby(both, lambda pair: pair.is_same)],
        fates={fate: say(words) for fate, words in FATES.items()},
    )


async def _offered(request: Request, scope: Scope) -> list[SessionInfo]:
    """Other sessions, those of the same user first."""
    index = index_of(request)
    lines = await index.look()
    offered = list[Line]()
    for _ in range(ROUNDS):
        lines = [line for line in lines if line.key != scope.key[1:]]
        own = [line for line in lines if line.info.user_id == scope.user_id]
        others = (line for line in lines if line.info.user_id != scope.user_id)
        offered = [*islice(chain(own, others), MOST_SESSIONS)]
        if not await index.forget_deleted(offered):
            break
        lines, offered = index.order, index.known(offered)
    return [line.info for line in offered]


async def _chosen_turn(reader: Reader, record: StoredTurn, scope: Scope, choice: str) -> StoredTurn:
    """The turn that is asked for, else the one that answers the same question.

    Raises:
        TurnNotFoundError: there is none.
    """
    other = await stored_turn(reader, scope, choice or "1")
    if not choice:
        other.at = counterpart(
            record.document, record.turns, record.at, other.document, other.turns
        )
    return other


def _pairs(*both: tuple[StoredTurn, MadeAgain]) -> list[Pair]:
    """What went out of both; nothing where one of them could not be made again."""
    sides = [
        Side(again.replay, again.why, Links(record.document, record.turns))
        for record, again in both
        if again.replay is not None
    ]
    return [*pairs(*sides)] if len(sides) == len(both) else []


def _facts(
    reader: Reader, record: StoredTurn, again: MadeAgain, say: Say
) -> Iterator[tuple[str, str]]:
    """A turn in figures, each with its name."""
    row, report, at = record.row, record.report, record.at
    calls, numbers = calls_of(record.document, record.turns), range(1, len(record.turns) + 1)
    yield say("framework"), row.framework
    yield say("model"), calls[at].model
    yield say("began (UTC)"), moment(row.opened_at)
    if report is None:
        return
    yield say("tokens"), number(report.token_used)
    yield say("budget"), number(report.token_budget)
    layers = timeline([row]).layers
    for name, tokens in layers.items():
        yield f"… {say(TITLES[name])}", number(tokens[0])
    yield say("messages"), sent_words(report, say)
    if again.why is not None:
        yield say("brought in for it"), number(len(again.why.brought_in))
    if (prefix := report.prefix_tokens_unchanged) is not None:
        yield say("begins alike"), percent(prefix, report.token_used, 1)
    if not is_free(calls[at]):
        yield from turn_lines(SessionCosts.of(calls, reader.prices, numbers), at, say)


def _figures(facts: Mapping[str, str], other: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys([*facts, *other])
    rows = [(name, facts.get(name, ""), other.get(name, "")) for name in names]
    return [row for row in rows if {*row[1:]} - {"", "0", "-"}]


routes = [Route("/beside", beside)]
