"""CPU time that importing the LangChain adapter, and the first installation, add to importing langchain-core.

    python benchmarks/imports.py [--times 9]

Every figure is the median of fresh processes, less that of processes that do only what stands above it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median


CORE = """
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
model = FakeListChatModel(responses=["hello"])
"""
BARE = 'model.invoke("warm")\n'
ADAPTER = "from ce_integrations.langchain import install_ce\n"
INSTALL = """
import tempfile
folder = tempfile.TemporaryDirectory()
installed = install_ce(model, store=f"sqlite:///{folder.name}/ce.db", session_id="s")
"""
CALL = 'model.invoke("question"); assert installed.flush()\n'
STEPS = {
    "langchain-core and a bare call": CORE + BARE,
    "+ import ce_integrations.langchain": CORE + BARE + ADAPTER,
    "+ the first install_ce": CORE + BARE + ADAPTER + INSTALL,
    "+ the first call, stored": CORE + BARE + ADAPTER + INSTALL + CALL,
}
SPENT = "\nimport time, sys; print(time.process_time(), len(sys.modules))"


def spent(code: str) -> tuple[float, int]:
    """CPU seconds of a fresh process that runs `code`, and how many modules it has then."""
    command = [sys.executable, "-c", code + SPENT]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, modules = done.stdout.split()
    return float(seconds), int(modules)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=9)
    times = parser.parse_args().times
    for code in STEPS.values():
        spent(code)  # compiles what is not compiled
    # Round by round, so that a busy moment of the machine falls on every step.
    rounds = [{name: spent(code) for name, code in STEPS.items()} for _ in range(times)]
    print(f"CPU seconds, median of {times} fresh processes; {'':12}all    added  modules")
    before, first = 0.0, 0.0
    for name in STEPS:
        seconds = median(one[name][0] for one in rounds)
        added = f"{seconds - before:8.3f}" if before else " " * 8
        print(f"{name:52}{seconds:8.3f} {added}{rounds[0][name][1]:9}")
        first = first or seconds
        before = seconds
        if name.endswith("install_ce"):
            print(f"{'  import and installation':52}{'':8} {seconds - first:8.3f}")


if __name__ == "__main__":
    main()
