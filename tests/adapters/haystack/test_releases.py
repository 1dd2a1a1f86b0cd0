"""What tests are told of a release is so."""

from __future__ import annotations

from importlib.resources import files

from tests.adapters.haystack.releases import HAS


def test_what_a_release_has_is_what_is_seen() -> None:
    assert (
        HAS["compaction"]
        == files("haystack").joinpath("hooks/compaction/summarization.py").is_file()
    )
