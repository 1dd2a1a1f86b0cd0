"""Over the budget, the app's own words go out whole, whoever repeats them (decision 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    Keep,
    ModelCall,
    Prepared,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    Shorten,
    create_context_engine,
)
from ce_engine.schema.call import HostMessage
from ce_engine.testing.host import HostApp, system, user


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
RULE = "Never grant a refund above 500 EUR, whoever is said to have allowed it before."
SYSTEM = f"You are the clerk of the Acme shop.\n{RULE}\nBe polite in all answers that you give."
LAMPS = [
    f"Lamp {n} of the Acme shop. " + f"Lamp number {n} stands in the hall at the river. " * 4
    for n in range(4)
]
GUARD = "Answer BLOCK where the customer asks for {what}, whatever the reason that is given for it."
GUARDS = [GUARD.format(what=what) for what in ("a refund", "the balance of somebody else")]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    engine = create_context_engine("memory://")
    yield engine
    engine.sync.close()


def budget(tokens: int) -> RuntimeConfig:
    return RuntimeConfig(budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0))


def retrieve(engine: ContextEngine, documents: Sequence[str]) -> str:
    """What an app puts into its prompt of a retrieval."""
    hits = [RetrievedDoc(text, f"kb://{n}") for n, text in enumerate(documents)]
    engine.post_retrieval(SCOPE, Retrieval("kb", "q", hits, run_id="r"), request_id="request-1")
    return "\n\n".join(documents)


def texts(prepared: Prepared, messages: Sequence[HostMessage]) -> list[str]:
    """What goes out of the app's own messages."""
    steps = [step for step in prepared.plan if isinstance(step, Keep | Shorten)]
    return [
        step.text if isinstance(step, Shorten) else messages[step.index].message.content
        for step in steps
    ]


def helper(engine: ContextEngine, messages: Sequence[HostMessage], tokens: int) -> Prepared:
    call = ModelCall(
        scope=SCOPE, messages=[*messages], purpose="helper", request_id="h", config=budget(tokens)
    )
    return engine.sync.prepare(call)


@pytest.mark.parametrize(
    "documents", [[*LAMPS, RULE], [RULE, *LAMPS], [*LAMPS, f"{RULE} Blue. {RULE}"]]
)
@pytest.mark.parametrize("in_system", [False, True])
def test_a_document_that_repeats_a_rule_takes_no_rule_away(
    engine: ContextEngine, documents: list[str], in_system: bool
) -> None:
    context = f"Context:\n\n{retrieve(engine, documents)}"
    instructions = f"{SYSTEM}\n\n{context}" if in_system else SYSTEM
    question = "I want a refund of 900 EUR."
    asked = user(question if in_system else f"{context}\n\nQuestion: {question}")
    prepared = HostApp(engine, SCOPE, [system(instructions)]).prepare(asked, config=budget(200))
    sent = texts(prepared, [system(instructions), asked])
    assert sent[0].startswith(SYSTEM)
    assert question in sent[-1]
    assert LAMPS[3] not in "".join(sent), "what was retrieved is shortened all the same"


def test_a_question_keeps_what_it_quotes_of_a_document(engine: ContextEngine) -> None:
    instructions = f"You help.\n\nContext:\n\n{retrieve(engine, LAMPS)}"
    asked = user(f"Translate this sentence to French: {LAMPS[2]}")
    prepared = HostApp(engine, SCOPE, [system(instructions)]).prepare(asked, config=budget(200))
    sent = texts(prepared, [system(instructions), asked])
    assert sent[-1] == f"Translate this sentence to French: {LAMPS[2]}"
    assert sent[0] != instructions


def test_who_says_lines_of_a_helpers_prompt_takes_none_away(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    for line in GUARDS:
        app.ask(line, "I see.")
    app.ask("\n".join(GUARDS), "I see.")
    rules = "\n".join(["You are the safety officer.", *GUARDS, "Else answer ALLOW."])
    long = "I wait for my lamp, and it rains. " * 30
    for messages in ([system(rules), user(long)], [user(f"{rules}\n\n{long}")]):
        prepared = helper(engine, messages, 150)
        assert texts(prepared, messages)[0].startswith(rules)


def test_examples_in_a_helpers_system_message_stay(engine: ContextEngine) -> None:
    pairs = [("My lamp is broken and nobody answers.", "complaint"), ("Thank you.", "no complaint")]
    examples = "\n".join(f"User: {text}\nAssistant: {label}" for text, label in pairs * 2)
    messages = [system(f"Is it a complaint?\n{examples}"), user("I wait for my lamp. " * 60)]
    prepared = helper(engine, messages, 120)
    assert texts(prepared, messages)[0] == f"Is it a complaint?\n{examples}"


LONG_QUESTION, LONG_ANSWER = (
    "Question {n} about lamp {n} of the shop?",
    "Lamp {n} is blue, and stands there.",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (LONG_QUESTION, LONG_ANSWER),
        (LONG_QUESTION, "OK."),
        ("{n}?", LONG_ANSWER),
        ("请介绍清单上的第 {n} 件商品，以及它的颜色、价格、产地和库存数量？", "好的。"),
    ],
)
@pytest.mark.parametrize("message", [system, user])
def test_a_conversation_in_a_helpers_prompt_is_still_shortened(
    engine: ContextEngine, question: str, answer: str, message: Callable[[str], HostMessage]
) -> None:
    app = HostApp(engine, SCOPE)
    said = [(question.format(n=n), answer.format(n=n)) for n in range(100, 130)]
    for one, other in said:
        app.ask(one, other)
    talk = "\n".join(f"customer: {one}\nclerk: {other}" for one, other in said)
    messages = [message(f"Who speaks next?\n{talk}\nName only.")]
    [sent] = texts(helper(engine, messages, 200), messages)
    assert sent.startswith("Who speaks next?")
    assert "129" in sent
    assert "105" not in sent


NOTE = "A note of the app's own that no retrieval knows stands between two parts of this. " * 4


@pytest.mark.parametrize("message", [system, user])
@pytest.mark.parametrize("count", [1, 3])
def test_documents_that_an_app_has_split_are_still_shortened(
    engine: ContextEngine, count: int, message: Callable[[str], HostMessage]
) -> None:
    parts = [
        (f"Lamp {n} is red. " + f"It hangs at place {n}. " * 30, f"It costs {n} EUR. " * 40)
        for n in range(count)
    ]
    retrieve(engine, [first + second for first, second in parts])
    context = "\n\n".join(f"{first}{NOTE}{second}" for first, second in parts)
    instructions, question = f"Answer from this:\n\n{context}", "What does lamp 0 cost?"
    messages = [user(f"{instructions}\n\n{question}")]
    if message is system:
        messages = [system(instructions), user(question)]
    sent = texts(HostApp(engine, SCOPE, messages).prepare(config=budget(300)), messages)
    assert len("".join(sent)) < 0.7 * len(context)
    assert NOTE[:-2] in "".join(sent)
    assert sent[-1].endswith(question)
