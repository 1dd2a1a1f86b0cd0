"""The chat memory of an engine or of a run: what keeps its messages, and the session that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ce_integrations.identity.session import names_somebody


def memory_of(args: Mapping[str, Any], instance: object) -> object:
    """What has the messages: the memory of an engine, or what a run is given: a memory, a context."""
    begins: Any = args.get("start_event")
    start_memory = begins.get("memory") if hasattr(begins, "get") else None
    return getattr(instance, "_memory", start_memory or args.get("ctx"))


def session_of(memory: object) -> dict[str, Any]:
    """The session of a memory; an id that all share by default is none, which is found out later."""
    names = ("session_id", "chat_store_key")
    ids = (getattr(memory, name, None) for name in names)
    session_id = next(filter(names_somebody, ids), None)
    return {"session_id": session_id, "conversation": memory}
