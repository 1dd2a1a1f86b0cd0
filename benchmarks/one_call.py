"""What one warm call passes: files, functions and calls of ours, wake-ups of the engine's loop, transactions.

    python benchmarks/one_call.py

A LangChain chain is asked again with eight messages, on SQLite; `--messages` and `--by-hand` ask otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import ce_engine


HOMES = tuple(
    str(Path(ce_engine.__file__).parents[1] / name) for name in ("ce_engine", "ce_integrations")
)
seen: Counter[tuple[str, str, int]] = Counter()
counting = threading.Event()


def profile(frame: FrameType, event: str, _: Any) -> None:
    """Count a call of a function of ours."""
    code = frame.f_code
    if event == "call" and counting.is_set() and code.co_filename.startswith(HOMES):
        seen[code.co_filename, code.co_qualname, code.co_firstlineno] += 1


def main() -> None:
    """Count, and print what was counted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=8)
    options.add_argument("--most", type=int, default=0, help="show so many files with their calls")
    given = options.parse_args()
    threading.setprofile(profile)  # before the engine's threads begin
    sys.setprofile(profile)
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage

    from ce_integrations.langchain import install_ce

    talk: list[Any] = []
    for n in range(given.messages // 2):
        talk += [
            HumanMessage(f"question {n} about the harbour"),
            AIMessage(f"answer {n}: it opens at dawn"),
        ]
    with tempfile.TemporaryDirectory() as folder:
        model = GenericFakeChatModel(messages=iter(AIMessage(f"fine {n}") for n in range(100)))
        with install_ce(model, store=f"sqlite:///{folder}/ce.db", session_id="s") as installed:
            for n in range(12):
                talk = [*talk[1:], HumanMessage(f"and what about boat {n}?")] if n == 0 else talk
                if n == 11:
                    installed.flush()
                    counting.set()
                answer = model.invoke(talk)
                if n == 11:
                    installed.flush()
                    counting.clear()
                talk = [*talk[2:], answer, HumanMessage(f"and what about boat {n}?")]
    sys.setprofile(None)
    files = Counter[str]()
    for (name, _, _), count in seen.items():
        files[name] += count
    print(f"{len(files)} files, {len(seen)} functions, {sum(seen.values())} calls")
    for key, count in seen.most_common(given.most):
        print(f"{count:6} {Path(key[0]).relative_to(Path(HOMES[0]).parent)}:{key[2]} {key[1]}")
    for name, count in files.most_common(given.most):
        functions = sum(key[0] == name for key in seen)
        print(f"{count:6} {functions:4}  {Path(name).relative_to(Path(HOMES[0]).parent)}")


if __name__ == "__main__":
    main()
