"""Wiring and defaults: one line makes an engine (A-26)."""

from __future__ import annotations

import os
from typing import Any
from weakref import finalize, ref

from ce_engine.audit.json_lines import JsonLinesAudit
from ce_engine.audit.otel_spans import OpenTelemetry
from ce_engine.config import RuntimeConfig
from ce_engine.engine import Engine
from ce_engine.errors import ConfigError
from ce_engine.ports.llm import LlmAdapter
from ce_engine.ports.store import Store
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.schema.environment import AUDIT_LOG, TELEMETRY
from ce_engine.stores import open_store
from ce_engine.sync import SyncEngine


AT_EXIT_S = 2.0
"""How long the end of the process waits for what is not stored yet."""


class ContextEngine(Engine):
    """The engine with its synchronous face, `engine.sync`."""

    def __init__(self, store: Store, **components: Any) -> None:
        if isinstance(store, str):
            raise ConfigError(
                "store is a text: open_store(url) makes a store of it, and create_context_engine(url) both"
            )
        super().__init__(store, **components)
        self.sync = SyncEngine(self)
        # Goes with the engine; at exit the newest come first, and its store was made before.
        finalize(self, _flush_at_exit, ref(self))


def create_context_engine(
    store: Store | str | None = None,
    token_estimator: TokenEstimator | None = None,
    llm_adapter: LlmAdapter | None = None,
    config: RuntimeConfig | None = None,
    **components: Any,
) -> ContextEngine:
    """Create an engine.

    Args:
        store: a store or its URL (see `open_store`); `None` is `CE_STORE_URL`, else `sqlite:///ce.db`.
        token_estimator: `None` takes the best that the machine has, without the network.
        llm_adapter: the model for summaries; without one none are made (A-16).
        config: defaults if not given.
        components: `summarizer`, `redactor`, `pruner`, `deriver`, `renderer`, `assembler`, `ingestor`,
            `ref_selector`, `event_bus`, `clock`, `id_generator`, `authorize`, `audit`, `hasher`, `sources`,
            `judge`, `embedder`, `telemetry`, `originals` (a second store, see `RedactionConfig`); see docs/components.md.

    Raises:
        StoreUrlError: the URL is not understood.
        ConfigError: `config.store.encryption` is no key, or comes with a store that is open already.
    """
    if components.get("audit") is None and (log := os.environ.get(AUDIT_LOG)):
        components["audit"] = JsonLinesAudit(log)
    if components.get("telemetry") is None:
        components["telemetry"] = _telemetry_here()
    if store is None or isinstance(store, str):
        opened = open_store(store, encryption=config.store.encryption if config else None)
    elif config is not None and config.store.encryption is not None:
        raise ConfigError(
            "store.encryption is for a store that is opened by its URL, and a store was handed over: "
            "open it with open_store(url, encryption=...)"
        )
    else:
        opened = store
    return ContextEngine(
        opened,
        token_estimator=token_estimator,
        llm_adapter=llm_adapter,
        config=config,
        **components,
    )


def _telemetry_here() -> OpenTelemetry | None:
    """What `CE_TELEMETRY` asks for.

    Raises:
        ConfigError: it asks for something that there is not.
    """
    choice = os.environ.get(TELEMETRY, "")
    if choice not in ("", "otel"):
        raise ConfigError(f"{TELEMETRY}={choice!r} is unknown; known: otel")
    return OpenTelemetry() if choice else None


def _flush_at_exit(reference: ref[ContextEngine]) -> None:
    engine = reference()
    if engine is not None and engine.has_unstored:
        engine.sync.flush(AT_EXIT_S)
