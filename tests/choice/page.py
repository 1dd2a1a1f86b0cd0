"""Makes `docs/choice.md`: one question followed through the choice, as the engine makes it.

    python tests/choice/page.py          writes the page

Everything in its tables and in its inputs comes from the engine as it is: after a change of the choice,
make it again, and read the difference.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


if __name__ == "__main__":  # run as a script, which sees its own folder only
    sys.path.insert(0, str(Path(__file__).parents[2]))

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Message,
    PrepareResult,
    Report,
    Role,
    RuntimeConfig,
    create_context_engine,
)
from ce_engine.text.relevance.relevance import LexicalIndex
from ce_engine.text.relevance.terms import terms
from tests.choice.talks import CHINESE, ENGLISH, Talk


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "choice.md"
COMMAND = "python tests/choice/page.py"
_FENCE = re.compile(r"\[(/?)\d+\]")

HEAD = f"""# What goes in, and why

Over its budget, a call cannot have all that was said. What goes in is chosen in four steps, without a model:

1. **What always goes:** the system prompt, the question, and the newest messages, which say what the talk is about.
2. **What may help:** every earlier message gets a score for the question: rare words that both have, also in the messages
   beside it and in the talk of its day, above all in a question right before it; names, dates and numbers that the
   question asks for; and a little for saying when something happened.
3. **What fits:** the best first, as long as there is room.
4. **As data:** what is brought back stands once, right before the question, in the order in which it was said, between marks that
   say that it is no instruction.

Below, two questions go through these steps. `ce report SESSION` tells the same of your own calls. This page is made by the
code: `{COMMAND}` writes it, and a test fails where it says something else than the engine does.
"""


def page() -> str:
    """The page as the engine has it now."""
    return "\n".join([HEAD, *(section(talk) for talk in (ENGLISH, CHINESE))])


def section(talk: Talk) -> str:
    said = talk.messages()
    made, known = asked(talk, said)
    fate, points = fates(made.report, known), scores(talk, said)
    shared = set(terms(talk.question))
    lines = [
        f"## {talk.title}",
        "",
        f"{len(said)} messages on {len(talk.days)} days; the input may have {talk.budget} tokens. Asked in the end:",
        "",
        f"> {talk.question}",
        "",
        "| # | who | said | words in common | score | what became of it |",
        "|---|---|---|---|---|---|",
    ]
    for n, message in enumerate(said):
        name = message.author.id if message.author else ""
        words = ", ".join(sorted(shared & set(terms(message.content)))) or "-"
        point = f"{points[n]:.2f}" if n in points else "-"
        lines.append(f"| {n + 1} | {name} | {message.content} | {words} | {point} | {fate[n]} |")
    lines += ["", told(made.report, fate), "", "What goes to the model:", "", "```text"]
    for part in made.assembled_input.parts:
        lines += [f"{part.role}:", *(f"  {line}" for line in plain(part.content).split("\n"))]
    return "\n".join([*lines, "```", ""])


def asked(talk: Talk, said: list[Message]) -> tuple[PrepareResult, list[str]]:
    """The input for the question, and the stored ids of what was said before."""
    budget = BudgetConfig(max_input_tokens=talk.budget, reserved_reply_tokens=0)
    engine = create_context_engine(
        MemoryStore(),
        config=RuntimeConfig(budget=budget),
        token_estimator=CharBasedEstimator(),  # the same on every machine
    )
    try:
        engine.sync.import_session("talk", said)
        known = ids(engine)
        made = engine.sync.prepare_turn("talk", Message(role=Role.USER, content=talk.question))
        return made, known
    finally:
        engine.sync.close()


def ids(engine: ContextEngine) -> list[str]:
    document = engine.sync.get_session("talk")
    assert document is not None
    return [message.message_id or "" for message in document.session.messages]


def scores(talk: Talk, said: list[Message]) -> dict[int, float]:
    """What the search gives each message; what it does not nominate has none."""
    index = LexicalIndex()
    for n, message in enumerate(said):
        speaker = message.author.id if message.author else None
        index.add(n, message.content, speaker=speaker, at=message.at)
    return {hit.n: hit.score for hit in index.search(talk.question, limit=len(said))}


def fates(report: Report, known: list[str]) -> list[str]:
    """What became of each message, by the report's decisions."""
    found = ["left out (nothing speaks for it)"] * len(known)
    place = {message_id: n for n, message_id in enumerate(known)}
    # First ranges of messages, then what the search nominated of them.
    for decision in sorted(report.prune_decisions, key=lambda each: is_nominated(each.block_id)):
        own, nominated = decision.block_id.removeprefix("m:"), is_nominated(decision.block_id)
        if own not in place:
            continue
        kept = "**brought back**" if nominated else "**stays** (of the newest)"
        lost = "left out (no room)" if nominated else "left out (nothing speaks for it)"
        for n in range(place[own], min(place[own] + decision.count, len(known))):
            found[n] = kept if decision.action == "kept" else lost
    return found


def is_nominated(block_id: str) -> bool:
    """Whether a block is a message that the search found, and not a range of them in their place."""
    return block_id.startswith("m:")


def told(report: Report, fate: list[str]) -> str:
    back, stay = (sum(word in each for each in fate) for word in ("brought back", "stays"))
    return (
        f"{report.token_used} of {report.token_budget} tokens: {stay} of the newest messages stay, {back} of the "
        f"{len(fate) - stay} before them are brought back."
    )


def plain(text: str) -> str:
    """A text without the number of its marks, which is another one in every session."""
    return _FENCE.sub(r"[\1mark]", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
