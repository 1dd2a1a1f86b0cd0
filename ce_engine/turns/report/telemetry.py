"""What telemetry is told of a call: figures of its report, and what the provider told."""

from __future__ import annotations

from collections.abc import Iterable

from ce_engine.ports.llm import LlmResponse
from ce_engine.schema.call import Answer, ModelCall, Prepared, TurnHandle, Usage
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.operations import Attribute
from ce_engine.schema.report import Report, error_parts
from ce_engine.schema.text_cache import text_cache
from ce_engine.sessions.view import OpenTurn
from ce_engine.text.redaction.plain_form import readable
from ce_engine.text.redaction.redact import BoundRedactor
from ce_engine.text.redaction.scan import scan
from ce_engine.text.tokens.prices import prices_here
from ce_engine.turns.record.persistence_boundary import Ingest, is_code


Attributes = dict[str, Attribute]

MAX_CHARS = 256
"""Of an id or a name."""


def mask_name(ingest: Ingest, text: str) -> str:
    """An id or a name of the host's as telemetry has it: a keyed digest where anything in it may be anybody's.

    It goes through no redactor: one learns from what it reads, and the session is to be the same without telemetry.
    """
    policy = ingest.policy
    if not text or not policy.enabled:
        return text[:MAX_CHARS]
    is_default = policy.rules is None and policy.detector is None
    if is_default and isinstance(ingest.redactor, BoundRedactor) and _has_nothing_found(text):
        return text[:MAX_CHARS]
    return ingest.fingerprinter.mac("telemetry", text).hex()


@text_cache(1024)
def _has_nothing_found(text: str) -> bool:
    return next(iter(scan(readable(text)[0])), None) is None


def of_call(call: ModelCall, ingest: Ingest) -> Attributes:
    """Whose a call is."""
    return _drop_empty(
        {
            "gen_ai.conversation.id": mask_name(ingest, call.scope.session_id),
            "gen_ai.agent.name": mask_name(ingest, call.scope.agent_id or call.lane_key or ""),
            "gen_ai.request.model": mask_name(ingest, call.model_hint or ""),
            "ce.framework": call.framework,
            "ce.purpose": call.purpose,
        }
    )


def of_turn(turn: TurnHandle, ingest: Ingest) -> Attributes:
    """Whose turn it is that ends."""
    opened = turn.state
    return _drop_empty(
        {
            "gen_ai.conversation.id": mask_name(ingest, turn.scope.session_id),
            "ce.turn.id": turn.turn_id,
            "ce.framework": opened.row.framework if isinstance(opened, OpenTurn) else "",
        }
    )


def of_preparation(prepared: Prepared) -> Attributes:
    """What goes out, and why: tokens by layer and kind, what was cut and brought in, and what it costs."""
    report, attributes = prepared.report, Attributes()
    attributes.update(
        {
            "ce.turn.id": report.turn_id,
            "ce.turn.attempt": report.attempt,
            "ce.tokens.used": report.token_used,
            "ce.tokens.before": report.tokens_before,
            "ce.messages.in": report.messages_in,
            "ce.messages.sent": report.messages_sent,
            "ce.messages.kept": report.kept,
            "ce.messages.dropped": report.dropped,
            "ce.messages.shortened": report.shortened,
            "ce.messages.inserted": report.inserted,
            "ce.messages.restored": report.restored,
            "ce.unchanged": prepared.unchanged,
            "ce.over_budget": report.over_budget,
            "ce.redactions": sum(record.fields_redacted for record in report.redactions),
        }
    )
    attributes.update(
        _drop_empty(
            {
                "ce.tokens.budget": report.token_budget,
                "ce.tokens.untouched": report.untouched.tokens if report.untouched else None,
                "ce.tokens.cached_prefix": report.prefix_tokens_unchanged,
                "ce.prefix.broken_by": report.prefix_broken_by,
                "ce.degradations": tuple(report.degradations),
                "ce.evidence.injected": tuple(report.injected_evidence_ids),
            }
        )
    )
    attributes.update({f"ce.tokens.layer.{name}": x.tokens for name, x in report.layers.items()})
    attributes.update({f"ce.tokens.payload.{name}": n for name, n in report.payload_tokens.items()})
    return attributes | _cost(report, prepared.call.model_hint or "")


def _cost(report: Report, model: str) -> Attributes:
    """What the input costs as it goes out, and what it would have cost without us, where the model has a price."""
    table = prices_here()
    price = table.of(model)
    if price is None:
        return {}
    attributes: Attributes = {
        "ce.cost.input": price.of_input(report.token_used, report.prefix_tokens_unchanged or 0)
        / table.per,
        "ce.cost.currency": table.currency,
    }
    if (without := report.untouched) is not None:
        paid = price.of_input(without.tokens, without.prefix or 0)
        attributes["ce.cost.untouched"] = paid / table.per
    return attributes


def of_answer(
    answer: Answer, usage: Usage | None, status: TurnStatus, ingest: Ingest
) -> Attributes:
    """What the provider told of an answer, or our estimate of it."""
    attributes = _drop_empty(
        {
            "gen_ai.response.model": mask_name(ingest, answer.model),
            "gen_ai.provider.name": mask_name(ingest, answer.provider),
            "ce.turn.status": status.value,
            "ce.tool_calls": len(answer.message.tool_calls or ()),
        }
    )
    return attributes | of_usage(usage)


def of_failure(error_code: str, status: TurnStatus, ingest: Ingest) -> Attributes:
    """How a turn ended that has no whole answer; a text in the place of a code is not told."""
    name, _ = error_parts(error_code)
    code = mask_name(ingest, name) if is_code(error_code) else "error"
    return {"ce.turn.status": status.value, "error.type": code}


def of_usage(usage: Usage | None) -> Attributes:
    """Tokens and times; none where nobody told."""
    if usage is None:
        return {}
    return _drop_empty(
        {
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.details.get("cache_read"),
            "ce.usage.estimated": usage.estimated,
            "ce.model.duration_ms": usage.latency_ms,
            "ce.model.first_token_ms": usage.first_token_latency_ms,
        }
    )


def of_own_calls(responses: Iterable[LlmResponse]) -> Attributes:
    """What the engine's own model calls used."""
    all_ = list(responses)
    return {
        "ce.own_calls": len(all_),
        "gen_ai.usage.input_tokens": sum(response.prompt_tokens for response in all_),
        "gen_ai.usage.output_tokens": sum(response.completion_tokens for response in all_),
    }


def _drop_empty(attributes: dict[str, Attribute | None]) -> Attributes:
    return {k: v for k, v in attributes.items() if v is not None and v not in ("", ())}
