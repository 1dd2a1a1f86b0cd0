"""What the documents import is public; what is public is there and documented.

That each `__all__` is sorted is ruff's business (RUF022).
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest


ROOT = Path(__file__).parents[2]
DOORS = {
    "ce_engine": {"BudgetConfig", "RuntimeConfig", "create_context_engine", "open_store"},
    "ce_integrations.langchain": {"install_ce"},
}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def public_names(module: str) -> list[str]:
    return list(import_module(module).__all__)


def documented_imports() -> set[tuple[str, str]]:
    """Give (module, name) of every `from ce_... import ...` in documents and examples."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    sources = [block for page in pages for block in BLOCK.findall(page.read_text("utf-8"))]
    sources += [path.read_text("utf-8") for path in (ROOT / "examples").rglob("*.py")]
    return {
        (node.module, name.name)
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith(("ce_engine", "ce_integrations"))
        for name in node.names
    }


@pytest.mark.parametrize("module", sorted(DOORS))
def test_all_is_exactly_what_is_there(module: str) -> None:
    names = public_names(module)
    found = import_module(module)
    there = {
        name
        for name, value in ((name, getattr(found, name)) for name in dir(found))
        if not name.startswith("_") and name != "annotations" and not inspect.ismodule(value)
    }
    assert len(names) == len(set(names))
    assert DOORS[module] <= set(names)
    assert there <= set(names)
    assert [name for name in names if not hasattr(import_module(module), name)] == []


@pytest.mark.parametrize("module", sorted(DOORS))
def test_what_is_public_has_a_docstring(module: str) -> None:
    objects = {name: getattr(import_module(module), name) for name in public_names(module)}
    bare = [
        name
        for name, value in objects.items()
        if (inspect.isclass(value) or inspect.isroutine(value)) and not value.__doc__
    ]
    assert bare == []


def test_dir_and_the_page_name_the_public_names_and_no_others() -> None:
    page = (ROOT / "docs" / "public-names.md").read_text("utf-8")
    tabled = [
        name
        for line in page.splitlines()
        if line.startswith("| ")
        for name in re.findall(r"`(\w+)`", line)
    ]
    assert len(tabled) == len(set(tabled))
    assert sorted(tabled) == public_names("ce_engine") == sorted(dir(import_module("ce_engine")))


def test_a_name_is_the_same_however_it_is_imported() -> None:
    """In a process of its own: here all is imported already."""
    statements = """
        import pickle
        import ce_engine
        config = ce_engine.BudgetConfig(max_input_tokens=5000)
        assert pickle.loads(pickle.dumps(config)) == config
        from ce_engine.config import BudgetConfig
        assert ce_engine.BudgetConfig is BudgetConfig
        from ce_engine import *
        assert set(ce_engine.__all__) <= set(globals())
        assert Scope is ce_engine.Scope
        try:
            ce_engine.NoSuchName
        except AttributeError as error:
            assert "NoSuchName" in str(error)
        else:
            raise AssertionError
        """
    subprocess.run([sys.executable, "-c", dedent(statements)], check=True, timeout=60)


def test_documents_and_examples_use_public_names_only() -> None:
    imports = documented_imports()
    assert imports
    assert {f"{module}.{name}" for module, name in imports if name not in public_names(module)} == (
        set()
    )


@pytest.mark.req("A-01")
@pytest.mark.req("A-04")
@pytest.mark.req("A-26")
def test_the_types_and_ports_of_the_register_are_public() -> None:
    names = """
        Role AuthorKind EvidenceType SourceKind BlockType Priority ToolCallStatus ProviderKind ToolType
        ModelUsageStage ModelUsageStatus TaskStatus Author Ref Message MessageIndexRange Summary Task TodoList
        TaskState ToolProvider ToolCall ToolState ModelUsage Session EvidenceSource EvidenceLinks Evidence
        ContextBlock AgentInfo Actor Meta SessionDocument EvidenceFilter BlockFilter PutResult RenderedBlock
        MessagePart AssembledInput PruneDecision ConflictRecord RedactionRecord Report PrepareResult
        IdGenerator Clock Hasher UuidV4Generator SystemClock Sha256Hasher RefSelector
        Store TokenEstimator Redactor Pruner LlmAdapter Summarizer BlockDeriver Renderer EvidenceResolver
        Assembler EventBus ContextSource EvidenceIngestor
        """.split()
    assert sorted(set(names) - set(public_names("ce_engine"))) == []
