"""What each question of a session took: its calls of a model, their tokens and their cost, summed up."""

from __future__ import annotations

from dataclasses import dataclass

from ce_engine.apps.present.cost_lines import SessionCosts
from ce_engine.apps.present.questions import Questions
from ce_engine.audit.compare.costs import has_usage, is_free


@dataclass(frozen=True, slots=True)
class QuestionSum:
    """What one question took; by its provider's figures where it told them of all calls, else by our own count.

    Attributes:
        question: its number.
        turns: the first and the last of its turns.
        calls: how many calls it took.
        tokens: of their inputs.
        cached: those of them that the provider had in its cache; `None` where it did not tell.
        cost: of inputs and answers, in the session's money.
    """

    question: int
    turns: tuple[int, int]
    calls: int
    tokens: int
    cached: int | None
    cost: float


def question_sums(spent: SessionCosts, questions: Questions) -> list[QuestionSum]:
    """The questions, the dearest first; none where each call is a question of its own.

    Args:
        spent: what the calls of the turns cost; others may follow.
        questions: of these calls.
    """
    places: dict[int, list[int]] = {}
    for place, number in enumerate(questions.numbers):
        places.setdefault(number, []).append(place)
    calls = spent.calls[: len(questions.numbers)]
    is_told = all(has_usage(call) or is_free(call) for call in calls if call.sent)
    sums = [_sum(number, own, spent, is_told=is_told) for number, own in places.items()]
    return sorted(sums, key=lambda each: -each.cost)


def _sum(number: int, places: list[int], spent: SessionCosts, *, is_told: bool) -> QuestionSum:
    calls, numbers = [spent.calls[place] for place in places], [spent.turns[n] for n in places]
    costs, bill = [spent.costs.calls[place] for place in places], spent.bill.inputs
    inputs = [bill.get(place, 0.0) for place in places] if is_told else [c.sent for c in costs]
    told_cached = [call.cached for call in calls if call.cached is not None]
    return QuestionSum(
        number,
        (min(numbers), max(numbers)),
        len(calls),
        sum((call.prompt or 0) if is_told else call.sent for call in calls),
        sum(told_cached) if told_cached else None,
        sum(inputs) + sum(cost.answer for cost in costs),
    )


__all__ = ["QuestionSum", "question_sums"]
