"""How a run is to be prepared and recorded: every value has a default, nothing of it is stored in the schema (A-22)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import (
    Field,
    field_serializer,
    field_validator,
    model_validator,
)

from ce_engine.errors import ConfigError, SelectorResolveError
from ce_engine.schema.config_base import FrozenConfig
from ce_engine.schema.enums import Layer, Priority
from ce_engine.schema.json_paths import json_path
from ce_engine.schema.retention import RetentionConfig


class BudgetConfig(FrozenConfig):
    """Tokens. `max_input_tokens` is the model's whole window, the reply's included (A-17).

    Messages and tools may have `max_input_tokens - reserved_reply_tokens`: with 8,192 and 1,024 at
    most 7,168 go out. An unset reserve is a quarter of a window that is smaller than 4,096.

    `tier_tokens` bounds what all blocks of a priority tier together may use. `shares` (of the room, 0 to
    1) and `minima` (tokens) are the layers' (D-02): they bind between layers that have content. A layer
    that is not named has no share.
    """

    max_input_tokens: int = Field(default=8192, ge=1)
    reserved_reply_tokens: int = Field(default=1024, ge=0)
    tier_tokens: dict[Priority, int] | None = None
    shares: dict[Layer, float] = Field(
        default_factory=lambda: {
            Layer.RULES: 0.15,
            Layer.SETTINGS: 0.10,
            Layer.RETRIEVED: 0.25,
            Layer.IMMEDIATE: 0.50,
        }
    )
    minima: dict[Layer, int] = Field(
        default_factory=lambda: {
            Layer.RULES: 500,
            Layer.SETTINGS: 200,
            Layer.RETRIEVED: 0,
            Layer.IMMEDIATE: 2000,
        }
    )

    @model_validator(mode="before")
    @classmethod
    def _small_windows_reserve_less(cls, values: Any) -> Any:
        """An unset reserve is at most a quarter of the window, so that small budgets work as given."""
        if not isinstance(values, dict) or "reserved_reply_tokens" in values:
            return values
        window = values.get("max_input_tokens")
        if isinstance(window, int) and window < 4096:
            return {**values, "reserved_reply_tokens": window // 4}
        return values

    @field_validator("shares")
    @classmethod
    def _are_shares(cls, value: dict[Layer, float]) -> dict[Layer, float]:
        wrong = {layer.value: share for layer, share in value.items() if not 0 <= share <= 1}
        if wrong or not any(value.values()):
            problem = f"{wrong} is no share" if wrong else "no layer has one"
            raise ValueError(
                f"{problem}; give each layer a part of the room from 0 to 1, such as "
                f'{{"retrieved": 0.25, "immediate": 0.5}}, and one of them more than 0'
            )
        return value

    @field_validator("minima", "tier_tokens")
    @classmethod
    def _are_tokens(cls, value: dict[Any, int] | None) -> dict[Any, int] | None:
        if value and min(value.values()) < 0:
            raise ValueError("tokens cannot be less than 0; give 0 for none")
        return value

    @model_validator(mode="after")
    def _room_is_left(self) -> Self:
        if self.reserved_reply_tokens >= self.max_input_tokens:
            raise ValueError(
                f"reserved_reply_tokens ({self.reserved_reply_tokens}) leaves nothing of "
                f"max_input_tokens ({self.max_input_tokens}); make it smaller"
            )
        return self

    @property
    def max_context_tokens(self) -> int:
        return self.max_input_tokens - self.reserved_reply_tokens


STRATEGIES = ("greedy", "group_aware", "degrade_to_summary")
"""The pruners that a configuration can name."""


class PruneConfig(FrozenConfig):
    """What goes in of what is there (A-11).

    Attributes:
        strategy: the pruner: `greedy`, `group_aware` (blocks of one evidence go together),
            `degrade_to_summary` (what does not fit goes out with the beginning of its text), or a `Pruner`
            of your own. Not set, it is the engine's component `pruner`. An object is not archived: a replay
            takes the engine's, and says so.
        must_keep_priorities: what has one of these is never left out.
        ttl_seconds: by priority, how old a block may be that is brought in; one without `created_at` has no age.
        exclude_sensitivity: blocks with one of these sensitivities are not brought in.
        keep_ratio: over the budget, cut to at most this share of what recall leaves, and keep that cut (decision 8).
            Of talk the newest four messages stay, and more only where relevance leaves room.
        max_retrieved_chunks: retrieved pieces that may be looked at (D-11); the best count.
    """

    strategy: Any = "greedy"
    must_keep_priorities: list[Priority] = Field(default_factory=lambda: [Priority.MUST])
    ttl_seconds: dict[Priority, int] | None = None
    exclude_sensitivity: frozenset[str] = frozenset()
    keep_ratio: float = Field(default=0.6, gt=0.0, le=1.0)
    max_retrieved_chunks: int = Field(default=200, ge=0)

    @field_validator("strategy")
    @classmethod
    def _chooses(cls, value: Any) -> Any:
        is_known = isinstance(value, str) and value in STRATEGIES
        if not is_known and not callable(getattr(value, "prune", None)):
            raise ValueError(f"expected one of {', '.join(STRATEGIES)}, or an object with prune()")
        return value

    @field_serializer("strategy")
    def _serialize(self, value: Any) -> str:
        return value if isinstance(value, str) else type(value).__qualname__


PII, INTERNAL_URLS = "pii", "internal_urls"


class RedactionRules(FrozenConfig):
    """The user's own rules, beside those that always hold (A-19).

    Attributes:
        patterns: name -> regex.
        dictionaries: name -> words; or a list of names that come with the engine: `pii` (mail, phone,
            cards, keys: always on) and `internal_urls` (addresses inside a company's network).
        field_paths: JSONPaths (RFC 9535, `$.customer.phone`, `$..salary`, or plain `customer.phone`) of
            values that are taken out whole: of tool arguments, metadata, payloads, and texts that are JSON.
    """

    patterns: dict[str, str] = Field(default_factory=dict)
    dictionaries: dict[str, list[str]] = Field(default_factory=dict)
    field_paths: list[str] = Field(default_factory=list)

    @field_validator("dictionaries", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        return {name: [] for name in value} if isinstance(value, list) else value

    @field_validator("dictionaries")
    @classmethod
    def _have_words(cls, value: dict[str, list[str]]) -> dict[str, list[str]]:
        for name, words in value.items():
            if not words and name not in (PII, INTERNAL_URLS):
                raise ValueError(
                    f"the dictionary {name!r} has no words, and none of that name comes with the engine "
                    f"({PII}, {INTERNAL_URLS} do); give it words: {{{name!r}: [...]}}"
                )
        return value

    @field_validator("field_paths")
    @classmethod
    def _are_json_paths(cls, value: list[str]) -> list[str]:
        for path in value:
            try:
                json_path(path)
            except SelectorResolveError as error:
                raise ValueError(
                    f"the field path {path!r} is no JSONPath (RFC 9535): write $.customer.phone, "
                    "$.items[*].name or $..salary"
                ) from error
        return value


ContentKind = Literal[
    "messages", "tool_arguments", "tool_results", "evidence", "metadata", "payloads"
]
FieldPolicy = Literal["redact", "patterns", "pointer", "stored"]


class RedactionConfig(FrozenConfig):
    """What is taken out before anything is stored, and where the original goes, if anywhere.

    Attributes:
        mode: `store_redacted_only` keeps no original; `dual_store` writes it to a second store, which is
            to have rights of its own. The first store never has it (A-30).
        originals_url: that second store, as `open_store` understands it; without one, the engine's
            component `originals`, else `CE_ORIGINALS_URL`.
        content: `pointer` stores no content of messages, evidence, tool arguments and results: length, HMAC
            and source stay. They can be traced and recognised, but neither recalled nor replayed (A-30).
            Metadata and payloads are kept, redacted; `fields` says otherwise.
        detector: finds what patterns cannot, such as names: `PresidioDetector()`, or your own
            (`PiiDetector`). The engine's configuration has it; that of one call cannot change it.
        detector_min_score: what the detector is less sure of is left, 0 to 1. The engine's, as the detector.
        fields: what is done with a kind of content. `redact` (the default) is patterns and the detector,
            `patterns` the first alone, `pointer` stores nothing of it but that it was there, `stored` keeps
            it as it is: for what nobody has to protect. What is named here is no matter of `content`.
            `messages`, `tool_arguments`, `tool_results` (and what tools failed with), `evidence` (and blocks),
            `metadata` (of evidence), `payloads` (of events that the app records).
        originals_only: sensitivities, words of the app's own. Evidence whose metadata has one of them under
            `sensitivity`, and blocks of such a `sensitivity`, keep their content in the second store alone
            (A-30): in the first are length and HMAC. They can be traced, and are in no input of ours.
        audit: an event says which rules hit what, and `engine.original` may be asked.
        max_text_chars: of one text, or of the texts of one piece of data; what is longer is stored without
            content (its length and HMAC are kept).
        timeout_s: seconds of work that the redaction of one text may take, and three times as many that of
            all texts of one call; what takes longer is stored without content, too. Waiting and the work
            of other threads do not count.
    """

    enabled: bool = True
    mode: Literal["store_redacted_only", "dual_store"] = "store_redacted_only"
    rules: RedactionRules | None = None
    originals_url: str | None = Field(default=None, repr=False)  # it may have a password in it
    content: Literal["stored", "pointer"] = "stored"
    detector: Any = None
    detector_min_score: float = Field(default=0.5, ge=0.0, le=1.0)
    fields: dict[ContentKind, FieldPolicy] = Field(default_factory=dict)
    originals_only: tuple[str, ...] = ()
    audit: bool = False
    max_text_chars: int = Field(default=2_000_000, ge=1)
    timeout_s: float = Field(default=2.0, gt=0)

    @field_validator("detector")
    @classmethod
    def _detects(cls, value: Any) -> Any:
        whole = all(hasattr(value, name) for name in ("name", "labels", "detect"))
        if value is not None and not whole:
            raise ValueError("expected an object with name, labels and detect(text, locale)")
        return value

    @field_serializer("detector")
    def _serialize(self, value: Any) -> str | None:
        return None if value is None else str(value.name)

    def policy_of(self, kind: ContentKind) -> FieldPolicy:
        """What is done with content of this kind."""
        pointed = self.content == "pointer" and kind not in ("metadata", "payloads")
        return self.fields.get(kind, "pointer" if pointed else "redact")

    @model_validator(mode="after")
    def _has_use_for_originals(self) -> Self:
        if self.originals_url is not None and self.mode != "dual_store":
            raise ValueError(
                'originals_url is given, but nothing goes there: set mode="dual_store"'
            )
        if self.originals_only and self.mode != "dual_store":
            raise ValueError(
                "originals_only names what the second store alone may have, but there is none: set "
                'mode="dual_store" and originals_url'
            )
        return self


class ObservabilityConfig(FrozenConfig):
    """Events and reports; `tags` are put on every event (A/B); `inspect` lets the allowed look (D-08).

    Attributes:
        store_contexts: what sources gave to a call is stored with its report, redacted, so that the call can
            be made again when they say something else (E-02). Else only digests of it are.
    """

    emit_events: bool = True
    include_reports_in_store: bool = True
    inspect: bool = False
    store_contexts: bool = False
    tags: dict[str, str] = Field(default_factory=dict)


SummaryEvent = Literal[
    "user_input", "planner", "tool_result", "reflection", "aggregate", "final", "hitl", "task_done"
]
"""Kinds of events after which a summary may be made; not `error` or `summary`, which making one brings."""


class SummaryConfig(FrozenConfig):
    """When summaries are made (by message count or tokens), how long they may be, and may take.

    Attributes:
        idle_s: also when a line was silent for so many seconds, in this process.
        on_events: also when something of these kinds was recorded; `task_done` is a task that was
            completed. The line that spoke last is summed up.
        strategy: `rolling` rewrites the summary each time; `layers` sums each stretch up by itself and
            the old ones again, for very long sessions.
        model: the model's name in the request, where the adapter knows several.
    """

    enabled: bool = True
    max_summary_tokens: int = Field(default=512, ge=1)
    trigger_message_count: int = Field(default=20, ge=1)
    trigger_token_threshold: int = Field(default=4096, ge=1)
    preserve_recent_messages: int = Field(default=5, ge=0)
    idle_s: float | None = Field(default=None, gt=0)
    on_events: frozenset[SummaryEvent] = frozenset()
    strategy: Literal["rolling", "layers"] = "rolling"
    model: str | None = None
    timeout_s: float = Field(default=30.0, gt=0)


class CompactionConfig(FrozenConfig):
    """What `engine.compact` leaves of a session's log, in tokens and events (B-15).

    Attributes:
        threshold_low: below it, all of the log.
        threshold_high: below it, the newest key events; from it on, summaries and those.
        last_events: how many key events stay.
    """

    threshold_low: int = Field(default=4000, ge=0)
    threshold_high: int = Field(default=8000, ge=0)
    last_events: int = Field(default=40, ge=0)

    @model_validator(mode="after")
    def _are_in_order(self) -> Self:
        if self.threshold_low > self.threshold_high:
            raise ValueError(
                f"threshold_low ({self.threshold_low}) is above threshold_high "
                f"({self.threshold_high}); make it smaller"
            )
        return self


class HandoverConfig(FrozenConfig):
    """When a session's log asks for a person, by a `hitl` event: each once, until something goes well (B-06).

    Attributes:
        model_failures: so many model calls of a lane in a row failed; `None` never.
        tool_failures: so many runs of a tool in a row failed; `None` never.
        on_codes: error codes and degradations of a turn that ask for one at once.
    """

    model_failures: int | None = Field(default=3, ge=1)
    tool_failures: int | None = Field(default=3, ge=1)
    on_codes: frozenset[str] = frozenset()


class JudgeConfig(FrozenConfig):
    """Whether answers are judged where the engine has a judge, and how long that may take, in seconds (D-15)."""

    enabled: bool = True
    timeout_s: float = Field(default=30.0, gt=0)


class StoreConfig(FrozenConfig):
    """Waits on the store, in seconds, and bytes of memory (decision 10).

    A phase of a call waits for the store `deadline_s` in all; up to 2 s longer for one that answers other
    sessions meanwhile, which is busy and not away. `buffer_bytes` bounds records that wait while the store
    is away, `view_bytes` what is remembered of sessions between calls; a session that is forgotten is read
    from the store again.

    `encryption` seals content at rest: a key, a list of keys (the first seals, all open), a `ContentCipher`,
    or a callable that gives one of these; without it the keys in `CE_ENCRYPTION_KEY`, with commas between
    them. It is for stores that are opened by their URL; see docs/security.md.
    """

    deadline_s: float = Field(default=0.25, gt=0)
    breaker_s: float = Field(default=5.0, ge=0)
    buffer_bytes: int = Field(default=32_000_000, ge=0)
    view_bytes: int = Field(default=128_000_000, ge=0)
    encryption: Any = Field(default=None, exclude=True, repr=False)


class RenderConfig(FrozenConfig):
    """How a session's blocks become text (A-12); see `RenderHints`.

    Attributes:
        max_chars: of one block; the rest is left out, and a line says how much. `None` leaves it whole.
        format: `text`; `markdown` quotes what is from evidence and names it; `json` is one object.
    """

    max_chars: int | None = Field(default=None, ge=1)
    format: Literal["text", "markdown", "json"] = "text"


ConflictStrategy = Literal["prefer_tool_over_rag", "prefer_latest_by_at", "keep_both_and_warn"]
"""Who is right where sources disagree on a field (A-18)."""


class CollectConfig(FrozenConfig):
    """What is collected beside the messages (D-11); `prune.max_retrieved_chunks` bounds retrieved pieces.

    Attributes:
        max_input_tokens: of all pieces together; the host's own list has no limit but the budget.
        max_constraints: of one owner in one project.
        deadline_s: how long sources may take, all side by side.
        concurrent: assemblies of one session at once; one of a lane (D-12).
        only_verified: constraints and a budget whose MACs say nothing, as an older release wrote them, are left
            out of calls like forged ones, until somebody accepts or sets them anew.
    """

    max_input_tokens: int = Field(default=64_000, ge=0)
    max_constraints: int = Field(default=500, ge=0)
    deadline_s: float = Field(default=0.25, gt=0)
    concurrent: int = Field(default=4, ge=1)
    only_verified: bool = False


class RuntimeConfig(FrozenConfig):
    """One preparation's configuration.

    Attributes:
        placement: `cache` puts what is brought in right before the task message, and leaves it there
            until the next cut or until a question needs its room: requests grow, and a provider's
            prefix cache holds. `seed` puts it before the first message of a person (E-03).
        history: `app`: the model is sent the history that the app sends, and no other; `session`: where
            the app sends none, a chain or engine that holds a conversation is given what was said in
            its session before (decision 7). The engine by hand always does that.
        fail: `open` lets the host's call go on whatever happens to us; `closed` raises.
        colleagues: `apart`: each agent of a session knows its own line, and what is said to it; `results`: it is
            told the newest final answer of every other line too, and nothing of how it came about (B-16).
        require_user: a call without a user id is given nothing that was said before, and is recorded in a
            session of its own: where an app serves several people, an id that was forgotten mixes nobody (B-03).
        enable_share_context: whether anything is injected at all (E-05).
        memory_opt_out: whether a scope's user wants nothing remembered: calls are prepared within the budget, no
            content of them is stored, nothing that was said before is brought in, and no summary made (B-08).
            It must be fast; where it raises, nothing is remembered.
        tool_results: `whole`: as the app sends them, while there is room; `compact`: each in fewer tokens from
            when it arrives: JSON without space and with rows under one header, the same result again as a
            reference, of a known object what changed, and of a long one some lines where the agent has
            `fetch_evidence`.
    """

    model_hint: str | None = None
    provider_hint: str | None = None
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    prune: PruneConfig = Field(default_factory=PruneConfig)
    redaction: RedactionConfig = Field(default_factory=RedactionConfig)
    observability: ObservabilityConfig = Field(default_factory=ObservabilityConfig)
    summary: SummaryConfig = Field(default_factory=SummaryConfig)
    compaction: CompactionConfig = Field(default_factory=CompactionConfig)
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    handover: HandoverConfig = Field(default_factory=HandoverConfig)
    store: StoreConfig = Field(default_factory=StoreConfig)
    collect: CollectConfig = Field(default_factory=CollectConfig)
    render: RenderConfig = Field(default_factory=RenderConfig)
    retention: RetentionConfig = Field(default_factory=RetentionConfig, exclude=True)
    placement: Literal["cache", "seed"] = "cache"
    history: Literal["app", "session"] = "app"
    fail: Literal["open", "closed"] = "open"
    locale: Literal["en", "zh"] = "en"
    require_user: bool = False
    memory_opt_out: Any = Field(default=None, exclude=True, repr=False)
    enable_share_context: bool = True
    colleagues: Literal["apart", "results"] = "apart"
    conflicts: ConflictStrategy = "keep_both_and_warn"
    tool_results: Literal["whole", "compact"] = "whole"

    @property
    def budget_is_given(self) -> bool:
        """Whether somebody set the window; the default counts as not given (decision 11)."""
        return "max_input_tokens" in self.budget.model_fields_set


def load_config(data: Mapping[str, Any] | str) -> RuntimeConfig:
    """Make a configuration of plain data or of TOML text.

    Raises:
        ConfigError: the text is no TOML, or a value is invalid; it names the field and what is expected.
    """
    if isinstance(data, str):
        try:
            data = tomllib.loads(data)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"the configuration is no TOML: {error}") from error
    return RuntimeConfig(**dict(data))
