"""What importing and installing loads: nothing that the app did not load itself."""

from __future__ import annotations

import subprocess
import sys


LOADED = "print(*sorted(m for m in sys.modules if m.startswith('autogen')))"


def loaded_by(code: str) -> set[str]:
    script = f"import sys, warnings; warnings.simplefilter('ignore')\n{code}\n{LOADED}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_the_import_loads_no_framework_at_all() -> None:
    assert loaded_by("import ce_integrations.autogen") == set()


def test_an_installation_on_a_runtime_needs_no_agentchat() -> None:
    code = (
        "from autogen_core import SingleThreadedAgentRuntime as R; "
        "from ce_integrations.autogen import install_ce; install_ce(R(), store='memory://')"
    )
    assert loaded_by(code) == {"autogen_core"}
