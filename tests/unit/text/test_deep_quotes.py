"""Secrets in JSON that is a text in JSON that is a text: a tool call's arguments in a message in a log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


SECRETS = {"password": "hunter2longer", "api_key": "kQ8x2mP9vL4nR7tW1y"}


def written(value: Any, levels: int) -> str:
    """The value as JSON, in so many levels of JSON around it."""
    text = json.dumps(value)
    for _ in range(levels):
        text = json.dumps({"arguments": text})
    return text


def read(text: str, levels: int) -> Any:
    for _ in range(levels):
        text = json.loads(text)["arguments"]
    return json.loads(text)


@pytest.mark.req("A-19", "B-02")
@pytest.mark.parametrize("levels", range(6))
def test_a_secret_is_found_however_deep_it_is_quoted(levels: int) -> None:
    clean = {"note": "What is the password?", "path": "C:\\new\\table"}
    done = PatternRedactor().redact(written(SECRETS | clean, levels), Numbering(b"0" * 16)).text
    assert read(done, levels) == {"password": "[PASSWORD_1]", "api_key": "[SECRET_1]", **clean}


@pytest.mark.parametrize("levels", range(5))
def test_deep_text_without_secrets_stays_as_it_is(levels: int) -> None:
    text = written(
        {"say": 'a "word"', "password": "", "token": None, "note": "忘记密码怎么办"}, levels
    )
    assert PatternRedactor().redact(text, Numbering(b"0" * 16)).text == text


def test_many_escapes_are_read_once() -> None:
    text = "\\" * 500_000 + 'n "x'
    assert PatternRedactor().redact(text, Numbering(b"0" * 16)).text == text
