"""Records the cassettes anew from a live model: `python tests/cassettes/record.py --base-url http://127.0.0.1:18080/v1`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cassettes.talks import PLANS, App, hold
from tests.cassettes.tapes import tape


APPS = {
    "langchain": "LangChainApp",
    "llamaindex": "LlamaIndexApp",
    "autogen": "AutoGenApp",
    "crewai": "CrewAIApp",
    "haystack": "HaystackApp",
    "semantic_kernel": "SemanticKernelApp",
}
"""By framework; each is imported only where it is wanted."""


def app_of(framework: str) -> type[App]:
    """The app that has the conversations through a framework."""
    found: type[App] = getattr(import_module(f"tests.cassettes.{framework}_talks"), APPS[framework])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Have the recorded conversations again with a live model, and keep what was said.",
        epilog="Any server that speaks OpenAI's chat completions will do; CONTRIBUTING.md has a small one.",
    )
    parser.add_argument("--base-url", default="http://127.0.0.1:18080/v1", help="of the server")
    parser.add_argument("--framework", choices=APPS, action="append", help="else all")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PLANS)}; else all")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PLANS):
        parser.error(f"no conversation is called {', '.join(sorted(unknown))}")
    for framework in options.framework or APPS:
        for name in options.names or PLANS:
            _record(framework, name, options.base_url)
    return 0


def _record(framework: str, name: str, base_url: str) -> None:
    started = time.perf_counter()
    with tape(f"{framework}/{name}", record=True):
        talk = hold(app_of(framework), name, base_url)
    spent = time.perf_counter() - started
    print(f"{framework}/{name}: {len(talk.asked)} calls, {spent:.1f} s")
    for answer in talk.answers:
        print(f"  {answer}")


if __name__ == "__main__":
    sys.exit(main())
