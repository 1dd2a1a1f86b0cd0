"""What importing and installing loads: nothing that the app did not load itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ce_engine import MissingDependencyError


LOADED = "print(*sorted(m for m in sys.modules if m.split('.')[0].startswith('lang')))"


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\n{LOADED}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.scenario(17)
def test_the_import_loads_no_framework_at_all() -> None:
    assert loaded_by("import ce_integrations.langchain") == set()


@pytest.mark.scenario(17)
def test_an_installation_loads_what_a_model_needs() -> None:
    plain = (
        "from langchain_core.language_models import FakeListChatModel as M; m = M(responses=['x'])"
    )
    ours = f"{plain}; from ce_integrations.langchain import install_ce; "
    found = loaded_by(f"{ours}install_ce(m, store='memory://'); m.invoke('q')")
    roots = {name.split(".")[0] for name in found}
    assert roots <= {name.split(".")[0] for name in loaded_by(f"{plain}; m.invoke('q')")}
    assert roots.isdisjoint({"langgraph", "langchain_openai"})


@pytest.mark.scenario(5)
def test_where_there_is_no_create_agent_the_error_names_the_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ce_integrations.langchain as adapter

    monkeypatch.setitem(sys.modules, "langchain.agents.middleware", None)
    monkeypatch.delitem(sys.modules, "ce_integrations.langchain.middleware", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'langchain>=1,<2'"):
        _ = adapter.CEMiddleware
    with pytest.raises(AttributeError, match="no attribute 'CeMiddleware'"):
        _ = adapter.CeMiddleware
