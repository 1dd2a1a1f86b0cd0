"""CPU time that importing the LangChain adapter, and the first installation, add to importing langchain-core.

    python benchmarks/imports.py [--times 9]
    python benchmarks/imports.py --commands

Every figure is the median of fresh processes, less that of processes that do only what stands above it;
with `--commands` the whole of a process that runs a command of `ce`, or imports the engine. Without
PYTHONDONTWRITEBYTECODE what is compiled is kept, as pip keeps it; with it all sources are compiled anew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
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
    seconds, modules = done.stdout.splitlines()[-1].split()
    return float(seconds), int(modules)


def command(*args: str) -> str:
    """What runs a command of `ce` in the process."""
    return f"""
import sys
sys.argv = ["ce", *{list(args)!r}]
from ce_engine.apps.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
"""


def measured(steps: Mapping[str, str], times: int) -> list[dict[str, tuple[float, int]]]:
    """Round by round, so that a busy moment of the machine falls on every step."""
    for code in steps.values():
        spent(code)  # compiles what is not compiled
    return [{name: spent(code) for name, code in steps.items()} for _ in range(times)]


def commands(times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder).as_posix()}/ce.db"
        spent(CORE + ADAPTER + INSTALL.replace("{folder.name}/ce.db", f"{folder}/ce.db") + CALL)
        steps = {
            "import ce_engine": "import ce_engine",
            "from ce_engine import create_context_engine": "from ce_engine import create_context_engine",
            "ce --version": command("--version"),
            "ce --help": command("--help"),
            "ce sessions": command("sessions", "--all", "--store", url),
            "ce show s": command("show", "s", "--store", url),
            "import sqlalchemy": "import sqlalchemy",
        }
        rounds = measured(steps, times)
    kept = "anew" if sys.dont_write_bytecode else "kept"
    print(f"CPU seconds, median of {times} fresh processes; sources compiled: {kept}")
    for name in steps:
        seconds = median(one[name][0] for one in rounds)
        print(f"{name:52}{seconds:8.3f} {rounds[0][name][1]:9} modules")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--commands", action="store_true")
    asked = parser.parse_args()
    times = asked.times
    if asked.commands:
        commands(times)
        return
    rounds = measured(STEPS, times)
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
