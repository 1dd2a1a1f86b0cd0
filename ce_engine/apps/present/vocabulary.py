"""The closed vocabularies of what is stored, in words: how turns ended, what evidence is, who said it."""

from __future__ import annotations

import re

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.audit.places.whereabouts import FATES
from ce_engine.schema.document import AttachmentRecord
from ce_engine.schema.enums import Role
from ce_engine.schema.replay import ReplayProblem


WORDS = {
    "rag_doc": "retrieved document",
    "tool_result": "tool result",
    "skill_output": "output of a skill",
    "llm_output": "model's answer",
    "user_input": "user's input",
    "rag": "retrieval",
    "llm": "model",
    "success": "succeeded",
    "timeout": "timed out",
    "not_found": "not found",
    "prefer_tool_over_rag": "the tool counts more than the document",
    "prefer_latest_by_at": "the newer one counts",
    "keep_both_and_warn": "none of them was left out because of that",
    "framework": "rule",
    "experience": "memory",
    "knowledge": "document",
    "todo": "task",
    "compression": "summary",
    "noted": "note",
}
"""Values whose own name is no word for a person; all others stand for themselves."""

AS_THEY_ARE = (
    *("open", "committed", "incomplete", "failed", "abandoned"),  # turns
    *("chat", "helper"),  # purposes
    *("user", "assistant", "tool", "system"),  # roles, and sources
    *("skill", "other"),  # evidence, and sources
    *("forbidden", "error"),  # ends of tools
    *("kept", "dropped", "degraded", "shortened", "extended", "injected", "restored"),  # decisions
    *("message", "evidence", "constraints", "tasks", "blocks", "summary", "conflicts"),
    *("must", "high", "medium", "low"),  # priorities of rules
    *("image", "file", "audio", "video", "unreadable"),  # attachments
)
"""Values that are words already, for the translators."""

PROBLEMS = {
    "UNEXPLAINED": "another release may choose or word its texts in another way",
    "WITHHELD": "texts are not there: deleted, or never redacted",
    "SECRET": "recorded with another secret than this install has: no hash agrees",
    "LIVE_TASK": "a message was shortened by its live text, which is not stored",
    "SUMMARY": "summaries whose text is gone",
    "LOG": "the store has not all that the turn knew",
    "MESSAGES": "messages of the list are not in the store any more",
    "SYSTEM_CHANGED": "a system message is not the one that was sent",
    "SYSTEM_NOT_GIVEN": "system messages are never stored",
    "RULES": "rules were changed or deleted since; what says so stands in the place of each text",
    "MATERIALS": "what was brought in is gone, changed since, or redacted",
    "ESTIMATOR": "tokens were counted in another way then",
    "PRUNER": "another pruner chose then",
    "RECOUNTED": "what is not stored as it was sent cannot be counted anew",
    "EMBEDDER": "chosen with vectors of a model that is not here",
    "UNAVAILABLE": "this turn has no archive to make it again from: it was a helper's call, was recorded by an "
    "older release, or without reports",
}
"""Why a turn cannot be made again exactly, by the end of the code."""
COUNTED = (
    "rules changed or deleted since: {n} of {m}; what says so stands in the place of each text",
    "{n} of {m} materials are gone or changed since",
    "{n} of {m} materials are there as stored: redacted",
    "{n} texts are not there: deleted, or never redacted",
    "summaries whose text is gone: {n}",
)
"""The same with how many, as it is told beside a code in English."""
_CODE = "CONTEXT_REPLAY_"
NAMELESS = frozenset({*Role, "constraints", "tasks", "blocks", "evidence", "summary", "conflicts"})
"""What stands for a name where nobody has one: roles, and where pieces of our own are from."""


def word(value: str, say: Say = ENGLISH) -> str:
    """A value of a vocabulary in words; one that is not known here stands for itself."""
    return say(WORDS.get(value, value))


def speaker(name: str, say: Say = ENGLISH) -> str:
    """Who said something: a name as it is; where nobody has one, in words what stands for it."""
    return word(name, say) if name in NAMELESS else name


def problem_words(problem: ReplayProblem, say: Say = ENGLISH) -> str:
    """Why a turn cannot be made again exactly; what has no translation says more in English."""
    return replay_words(problem.code, problem.detail, say)


def replay_words(code: str, detail: str, say: Say = ENGLISH) -> str:
    """The same of a code and what is told beside it, in English."""
    counts = [int(digits) for digits in re.findall(r"\d{1,9}", detail)]
    names = iter("nm")
    counted = re.sub(r"\d{1,9}", lambda match: f"{{{next(names, match[0])}}}", detail)
    if counted in COUNTED and (text := say(counted)) != counted:
        return text.format(**dict(zip("nm", counts, strict=False)))
    english = PROBLEMS.get(code.removeprefix(_CODE), detail)
    text = say(english)
    return detail if text == english else text


def attachment_words(item: AttachmentRecord, say: Say = ENGLISH) -> str:
    """A picture or a file on one line, as its own label has it."""
    pages, size = item.pages, item.size
    name = " ".join((item.name or "").split())
    of_image = f"{item.width}x{item.height}" if item.width and item.height else ""
    parts = [
        " ".join(filter(None, (say(item.kind), name, of_image))),
        item.format or "",
        say("{count} page", "{count} pages", count=pages) if pages else "",
        say("{count} byte", "{count} bytes", count=size)
        if size is not None and not (pages or of_image)
        else "",
    ]
    return f"[{', '.join(filter(None, parts))}]"


def fate_words(fate: str, say: Say = ENGLISH) -> str:
    """What became of a message in a turn, in words."""
    return say(FATES[fate])


def estimator_words(estimator: str, say: Say = ENGLISH) -> str:
    """What counted the tokens: the estimator's name, with the model's where it is known."""
    label = estimator.replace("/ ", " ").removesuffix("/")
    name, mark, rest = label.partition(" (")
    return say(name) + say(" ({text})", text=say(rest.removesuffix(")"))) if mark else name
