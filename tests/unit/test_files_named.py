"""Files that a user names to a command, and a store's own place."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ce_engine import ConfigError, StoreUrlError, create_context_engine
from ce_engine.cli.reading import text_of
from ce_engine.errors import StoreUnavailableError
from ce_engine.runtime.breaker import Breaker
from ce_engine.stores import open_store


def test_a_file_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "规则.txt"
    path.write_bytes("规则".encode("utf-16"))
    with pytest.raises(ConfigError, match=r"规则\.txt.*UTF-8"):
        text_of(path)
    path.write_bytes("\ufeff规则".encode())
    assert text_of(path) == "规则"


def test_a_link_in_place_of_the_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    engine = create_context_engine(f"sqlite:///{tmp_path / 'link.db'}")
    with pytest.raises(StoreUrlError, match="symbolic link"):
        engine.check_possible()


def test_the_line_of_a_store_that_is_away_tells_no_folder_of_a_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "st"
    breaker = Breaker(open_store(f"file://{root}"), 1.0)
    folder = root / "acme" / "alice-example-com" / "s"
    with caplog.at_level(logging.WARNING):
        breaker.trip(
            StoreUnavailableError(f"the store's folder {str(root)!r} is locked ({folder})")
        )
    assert str(root) in caplog.text
    assert "alice" not in caplog.text
