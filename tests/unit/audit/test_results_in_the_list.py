"""What an answer rests on may stand in its call as a message of the list or as a value in a note, and not only as something brought in."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    PruneConfig,
    Ref,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


pytestmark = pytest.mark.req("A-03")

SCOPE = Scope(session_id="shop", user_id="ada")
INVOICE = "Invoice 17 of Miller and Sons: the total is 2370.17 euros, due on the 3rd of May."
ORDER = "Order A-100 ships from the northern warehouse on the 12th of June."
ASKED = "How much was invoice 17 in all?"


NOTHING_BACK = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=600), prune=PruneConfig(max_retrieved_chunks=0)
)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=NOTHING_BACK)
    yield made
    made.sync.close()


def fetched(engine: ContextEngine) -> HostApp:
    """A talk in which two tools gave what a later answer may rest on."""
    app = HostApp(engine, SCOPE, [system("You keep a shop.")])
    for number, result in enumerate((INVOICE, ORDER)):
        name = f"call_{number}"
        asking = app.prepare(user(f"Please fetch paper {number}."))
        app.commit(asking, tool_calls((name, "fetch", {"paper": number})))
        answering = app.prepare(tool_result(name, result), new_request=False)
        app.commit(answering, assistant("I have it."))
    return app


async def newest_answer(engine: ContextEngine) -> str:
    await engine.flush()
    document = await engine.store.get_session(SCOPE)
    assert document is not None
    said = [m for m in document.session.messages if m.role is Role.ASSISTANT]
    return said[-1].message_id or ""


async def evidence_of(engine: ContextEngine, content: str) -> str:
    [found] = [e for e in await engine.store.list_evidences(SCOPE) if e.content == content]
    return found.evidence_id


async def test_an_answer_is_linked_with_the_result_that_it_quotes(engine: ContextEngine) -> None:
    fetched(engine).ask(ASKED, "The total is 2370.17 euros.")
    answer = await newest_answer(engine)
    invoice, order = [await evidence_of(engine, text) for text in (INVOICE, ORDER)]
    trace = await engine.trace(SCOPE, answer)
    assert [each.ref.evidence_id for each in trace.evidence] == [invoice, order]
    assert [each.quoted_by for each in trace.evidence] == [[answer], []]
    assert all(answer in each.used_by for each in trace.evidence)
    assert (await engine.trace(SCOPE, invoice)).evidence[0].quoted_by == [answer]
    [way_back] = (await engine.trace(SCOPE, order)).evidence
    assert way_back.quoted_by == []
    assert (
        answer in way_back.used_by
    )  # it was before the model, and is said to have been from either end


SOFA = "two Fjordheim sofas in moss green linen"
ORDERS = (
    f"Order SO-52010: {SOFA}, on a van on Monday, for Klara Brandt in Jena.",
    f"Order SO-52108: {SOFA}, lifted by crane on Friday, for Otto Lindner in Gera.",
)


async def test_two_orders_of_one_product_are_told_apart(engine: ContextEngine) -> None:
    """The name of the product stands in both; what else the answer says is of one of them."""
    app = fetched(engine)
    for number, order in enumerate(ORDERS):
        asking = app.prepare(user(f"Look order {number} up."))
        app.commit(asking, tool_calls((f"order_{number}", "get_order", {"number": number})))
        app.commit(
            app.prepare(tool_result(f"order_{number}", order), new_request=False), assistant("Yes.")
        )
    app.ask("And the second?", f"It has {SOFA}, lifted by crane on Friday.")
    answer = await newest_answer(engine)
    first, second = [await evidence_of(engine, text) for text in ORDERS]
    trace = await engine.trace(SCOPE, answer)
    assert {each.ref.evidence_id: each.quoted_by for each in trace.evidence}[first] == []
    assert {each.ref.evidence_id: each.quoted_by for each in trace.evidence}[second] == [answer]
    assert (await engine.trace(SCOPE, first)).evidence[0].quoted_by == []
    assert (await engine.trace(SCOPE, second)).evidence[0].quoted_by == [answer]
    app.ask("What did both order?", f"Both have {SOFA}.")
    both = await newest_answer(engine)
    for name in (first, second):
        assert both in (await engine.trace(SCOPE, name)).evidence[0].quoted_by


async def test_what_was_left_out_of_the_call_is_no_source_of_its_answer(
    engine: ContextEngine,
) -> None:
    app = fetched(engine)
    for number in range(30):
        app.ask(f"Tell me of the weather on day {number}, please.", "It rains in the hills. " * 6)
    app.ask("Thank you, that is all for now.", "The total is 2370.17 euros.")
    invoice = await evidence_of(engine, INVOICE)
    trace = await engine.trace(SCOPE, await newest_answer(engine))
    assert invoice not in [each.ref.evidence_id for each in trace.evidence]
    assert (await engine.trace(SCOPE, invoice)).evidence[0].quoted_by == []


async def test_where_the_app_names_its_sources_nothing_is_added(engine: ContextEngine) -> None:
    app = fetched(engine)
    order = await evidence_of(engine, ORDER)
    answer = Answer(assistant("The total is 2370.17 euros.").message, refs=[Ref(evidence_id=order)])
    engine.sync.commit(app.prepare(user(ASKED)).turn, answer)
    trace = await engine.trace(SCOPE, await newest_answer(engine))
    assert [each.ref.evidence_id for each in trace.evidence] == [order]


ASKED_FOR_DATE = "When is order Q-204 promised?"


@pytest.fixture
def disagreeing() -> Iterator[ContextEngine]:
    """Of two sources that disagree, one is too long to go out: its value stands in the note alone."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=700))
    made = create_context_engine(MemoryStore(), config=config)
    for name, day, more in (("track", "2026-06-11", []), ("find", "2026-06-05", ["0x7F "] * 2000)):
        made.sync.record_evidence(
            SCOPE,
            json.dumps({"order_id": "Q-204", "promised": day, "more": more}),
            EvidenceSource(kind=SourceKind.RAG, name=name),
            EvidenceType.RAG_DOC,
        )
    yield made
    made.sync.close()


async def asked_by_hand(engine: ContextEngine, said: str) -> str:
    """What went out for a question that is answered so."""
    prepared = await engine.prepare_turn(SCOPE, Message(role=Role.USER, content=ASKED_FOR_DATE))
    answer = Message(role=Role.ASSISTANT, content=said)
    await engine.commit_assistant_message(SCOPE, answer, turn_id=prepared.report.turn_id)
    return "\n".join(part.content for part in prepared.assembled_input.parts)


async def sources(engine: ContextEngine) -> dict[str, str]:
    return {each.source.name: each.evidence_id for each in await engine.store.list_evidences(SCOPE)}


async def test_a_source_that_only_a_note_names_is_found(disagreeing: ContextEngine) -> None:
    sent = await asked_by_hand(disagreeing, "Q-204 is promised for 5 June 2026.")
    assert "2026-06-05" in sent
    assert "0x7F" not in sent
    answer, of = await newest_answer(disagreeing), await sources(disagreeing)
    trace = await disagreeing.trace(SCOPE, answer)
    assert [each.ref.evidence_id for each in trace.evidence] == [of["find"], of["track"]]
    assert [each.quoted_by for each in trace.evidence] == [[answer], []]
    back = (await disagreeing.trace(SCOPE, of["find"])).evidence[0]
    assert (back.used_by, back.quoted_by) == ([answer], [answer])


async def test_of_what_only_a_note_names_the_rest_is_not_quoted(
    disagreeing: ContextEngine,
) -> None:
    await asked_by_hand(disagreeing, "There is much of 0x7F 0x7F 0x7F 0x7F about.")
    answer, of = await newest_answer(disagreeing), await sources(disagreeing)
    trace = await disagreeing.trace(SCOPE, answer)
    assert {each.ref.evidence_id for each in trace.evidence} == {of["find"], of["track"]}
    assert [each.quoted_by for each in trace.evidence] == [[], []]
    assert trace.quotes_none
    back = (await disagreeing.trace(SCOPE, of["find"])).evidence[0]
    assert (back.used_by, back.quoted_by) == ([answer], [])


async def test_what_is_quoted_stands_first(engine: ContextEngine) -> None:
    fetched(engine).ask(ASKED, "It ships from the northern warehouse on June 12.")
    answer = await newest_answer(engine)
    trace = await engine.trace(SCOPE, answer)
    invoice, order = [await evidence_of(engine, text) for text in (INVOICE, ORDER)]
    assert [each.ref.evidence_id for each in trace.evidence] == [order, invoice]
    assert not trace.quotes_none
