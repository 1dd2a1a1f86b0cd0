"""What the engine's own model calls used becomes records."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.runtime.own_calls import OwnCall
from ce_engine.schema.document import ModelUsage
from ce_engine.schema.enums import ModelUsageStage
from ce_engine.schema.rows import AppendModelUsage
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.record.write_group import RecordGroup


def record_own_calls(
    records: RecordGroup, calls: Sequence[OwnCall], counter: Counter, stage: ModelUsageStage
) -> str:
    """Record what the engine's own model calls used; the id of the last one."""
    usages = [_usage(records, call, counter, stage) for call in calls]
    records.view.spending.add_own(usages)
    records.writes.append(AppendModelUsage(usages))
    return usages[-1].model_usage_id


def _usage(
    records: RecordGroup, call: OwnCall, counter: Counter, stage: ModelUsageStage
) -> ModelUsage:
    ingest, response = records.ingest, call.response
    prompt, completion = response.prompt_tokens, response.completion_tokens
    estimated = not (prompt or completion or response.total_tokens)
    if estimated:
        prompt = sum(counter.text(part.content) for part in call.request.messages)
        completion = counter.text(response.content)
    return ModelUsage(
        model_usage_id=ingest.ids.generate(),
        provider="",
        model=ingest.name(response.model),
        stage=stage,
        params={"estimated": True} if estimated else {},
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=response.total_tokens or prompt + completion,
        latency_ms=response.latency_ms,
    )
