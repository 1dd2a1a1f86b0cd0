"""Documents and talks anywhere in anybody's prompt, in any form: within the budget, or told; the host's own words stay."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    Origin,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.prepare.compose.context_places import RULE
from ce_integrations.testing.contract_case import count
from tests.property.test_budget_properties import words


CASES = 60
SCOPE = Scope(session_id="s")
ROLES = {
    "system": (Role.SYSTEM, Origin.SYSTEM),
    "user": (Role.USER, Origin.TASK),
    "assistant": (Role.ASSISTANT, Origin.ANSWER),
}
FORMS: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: f"[1] {' '.join(text.split())}",
    lambda text: f"<doc>{escape(text)}</doc>",
    lambda text: json.dumps({"page": text}, ensure_ascii=False),
    lambda text: "".join(f"Source {n}:\n{text[n : n + 120]}\n" for n in range(0, len(text), 120)),
]
OWN = "<<own {n}: {words}>>"


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def message(role: str, text: str) -> HostMessage:
    known, origin = ROLES[role]
    return HostMessage(Message(role=known, content=text), origin)


def prompts(rng: random.Random, known: list[str]) -> tuple[list[HostMessage], list[str]]:
    """A list of messages with known texts in them, and the host's own words in those that never go."""
    roles = ["system", *rng.choices(["user", "assistant"], k=rng.choice([0, 0, 2, 4])), "user"]
    roles = roles[: 1 if rng.random() < 0.1 else None]  # a selector's prompt is nothing else
    made, own = [], []
    for n, role in enumerate(roles):
        before = OWN.format(n=n, words=words(rng, 6))
        chosen = rng.sample(known, k=rng.randint(0, len(known))) if known else []
        form = rng.choice(FORMS)
        after = OWN.format(n=f"{n} after", words=words(rng, 6))
        made.append(message(role, "\n".join([before, *map(form, chosen), after])))
        own += [before, after] if n in (0, len(roles) - 1) else []
    return made, own


@pytest.mark.parametrize("purpose", ["chat", "helper"])
def test_any_prompt_is_within_its_budget_or_told(engine: ContextEngine, purpose: str) -> None:
    for seed in range(CASES):
        rng = random.Random(f"{purpose} {seed}")
        scope = Scope(session_id=f"{purpose} {seed}")
        documents = [f"{n}: {words(rng, 120)}. {words(rng, 60)}." for n in range(rng.randint(0, 5))]
        hits = Retrieval("kb", "q", [RetrievedDoc(each) for each in documents], "run")
        engine.post_retrieval(scope, hits, request_id="r")
        messages, own = prompts(rng, documents)
        tokens = rng.choice([60, 150, 300, 600])
        budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
        call = ModelCall(
            scope,
            messages,
            request_id="r",
            purpose=purpose,  # type: ignore[arg-type]  # one of the two
            model_hint="gpt-4",
            config=RuntimeConfig(budget=budget),
        )
        prepared = engine.sync.prepare(call)
        report = prepared.report
        parts = [{"role": str(p.role), "content": p.content} for p in prepared.assembled.parts]
        where = f"seed {seed}"
        assert (count({"messages": parts}) > tokens) <= report.over_budget, where
        assert (
            report.over_budget == (report.token_used > tokens) == bool(report.over_budget_causes)
        ), where
        said = "\n".join(part["content"] for part in parts)
        assert [each for each in own if each not in said] == [], where
        if (
            report.over_budget
        ):  # nothing that could go is left; of what stands twice one place may be a quotation
            texts = "\n".join(each.message.content for each in messages)
            # A short one may be a rule of the app's that a document repeats.
            once = [each for each in documents if texts.count(each) == 1 and len(each) > RULE]
            left = [each for each in once if each in said]
            assert left == [], where
