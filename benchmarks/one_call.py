"""What one warm call passes: files, functions and calls of ours, until it is stored.

    python benchmarks/one_call.py --most 20

A model of LangChain is asked again with eight messages (`--messages`), on SQLite.
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


def ask(messages: int) -> None:
    """Ask a warm model once with so many messages, and count."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage

    from ce_integrations.langchain import install_ce

    model = GenericFakeChatModel(messages=iter(AIMessage(f"fine {n}") for n in range(100)))
    talk: list[Any] = [HumanMessage("when does the harbour open?")]
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/ce.db"
        with install_ce(model, store=store, session_id="s") as installed:
            while len(talk) < messages:
                talk += [model.invoke(talk), HumanMessage(f"and boat {len(talk)}?")]
            installed.flush()
            counting.set()
            model.invoke(talk)
            installed.flush()
            counting.clear()


def main() -> None:
    """Count, and print what was counted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=8)
    options.add_argument("--most", type=int, default=0, help="show so many functions")
    given = options.parse_args()
    threading.setprofile(profile)  # before the engine's threads begin
    sys.setprofile(profile)
    ask(given.messages)
    sys.setprofile(None)
    files = {name for name, _, _ in seen}
    print(f"{len(files)} files, {len(seen)} functions, {seen.total()} calls")
    for (name, function, line), count in seen.most_common(given.most):
        print(f"{count:6} {Path(name).relative_to(Path(HOMES[0]).parent)}:{line} {function}")


if __name__ == "__main__":
    main()
