"""One process of several: asks an agent of a framework in a session that others write to as well."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module

from ce_engine import RuntimeConfig, StoreConfig
from ce_integrations.testing.answers import JsonObject, text
from ce_integrations.testing.framework_apps import FrameworkApps
from ce_integrations.testing.wire import Wire


SESSION = "shared"
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=30))
"""On a busy machine two processes that begin at once would find the store too slow, and each make the
session: what the one stores then has no fingerprints, and goes in again when it is resent."""


def words(framework: str, n: int) -> str:
    return f"{framework} asks {n}: 车道?"


def answered(body: JsonObject) -> str:
    asked = [m["content"] for m in body["messages"] if m["role"] == "user"]
    return f"heard: {asked[-1]}"


def ask(framework: str, url: str, times: int) -> None:
    """Ask so many times, each answer awaited; fails where anything of ours did."""
    apps: FrameworkApps = import_module(f"tests.adapters.{framework}.contract_apps").AgentApps()

    async def talk() -> None:
        try:
            with Wire(lambda body: text(answered(body))) as wire:
                target = apps.make_target(wire)
                with apps.adapter.install_ce(target, store=url, config=PATIENT) as installation:
                    for n in range(times):
                        said = await apps.aask(target, words(framework, n), SESSION)
                        assert said == f"heard: {words(framework, n)}", said
                    assert installation.flush(30)
                    assert installation.faults == ()
                assert wire.refusals == []
        finally:
            await apps.aclose()

    asyncio.run(talk())


if __name__ == "__main__":
    ask(sys.argv[1], sys.argv[2], int(sys.argv[3]))
