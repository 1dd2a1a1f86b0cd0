"""What an import costs: nothing of the framework before an installation."""

from __future__ import annotations

import subprocess
import sys

import pytest


CODE = """
import sys
import ce_integrations.haystack
from ce_integrations.haystack.installer import ADAPTER
assert not ADAPTER.accepts(object())
found = [name for name in sys.modules if name.partition(".")[0] == "haystack"]
assert found == [], found
"""


@pytest.mark.scenario(11)
def test_nothing_of_the_framework_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
