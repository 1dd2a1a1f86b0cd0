"""Records the cassettes anew from a live model: `python tests/cassettes/record.py --base-url http://127.0.0.1:18080/v1`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cassettes.langchain_talks import TALKS, hold
from tests.cassettes.tapes import tape


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Have the recorded conversations again with a live model, and keep what was said.",
        epilog="Any server that speaks OpenAI's chat completions will do; CONTRIBUTING.md has a small one.",
    )
    parser.add_argument("--base-url", default="http://127.0.0.1:18080/v1", help="of the server")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TALKS)}; else all")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(TALKS):
        parser.error(f"no conversation is called {', '.join(sorted(unknown))}")
    for name in options.names or TALKS:
        started = time.perf_counter()
        with tape(f"langchain/{name}", record=True):
            talk = hold(name, options.base_url)
        print(f"{name}: {len(talk.answers)} answers, {time.perf_counter() - started:.1f} s")
        for answer in talk.answers:
            print(f"  {answer.content or answer.tool_calls}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
