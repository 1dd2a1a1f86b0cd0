"""What one line brings in, and takes away again: who installs, with which options, and what is left."""

from __future__ import annotations

import atexit
import gc
import os
import threading
import weakref
from collections import Counter
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel

from ce_integrations.langchain import install_ce


def a_model() -> FakeListChatModel:
    return FakeListChatModel(responses=["An answer."])


# What is left


def held() -> Counter[str]:
    """Objects of ours and callbacks, by their kind."""
    gc.collect()
    kinds = [(str(type(each).__module__), type(each).__name__) for each in gc.get_objects()]
    found = Counter(
        f"{module}.{name}"
        for module, name in kinds
        if module.startswith("ce_") or name == "WeakMethod"
    )
    found["callbacks at exit"] = atexit._ncallbacks()
    found["finalizers"] = len(weakref.finalize._registry)  # type: ignore[attr-defined]  # no other way to see them
    found["threads"] = threading.active_count()
    return found


@pytest.mark.parametrize("store", ["memory://", "sqlite:///{}/ce.db", "file://{}/sessions"])
def test_an_installation_that_is_gone_leaves_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    counts = []
    for n in range(12):
        model = a_model()
        installation = install_ce(model, store=store.format(tmp_path))
        model.invoke("你好")
        installation.uninstall()
        del model, installation
        if n == 3:  # what is made once is made
            monkeypatch.setattr(os, "register_at_fork", lambda **each: registered.append(each))
            counts.append(held())
    counts.append(held())
    assert registered == []
    assert {kind: n for kind, n in counts[1].items() if n > counts[0][kind]} == {}
