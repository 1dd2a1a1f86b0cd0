"""Recorded HTTP: where it is, and what is kept of it. No host, no key, nothing of a machine."""

from __future__ import annotations

import copy
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from vcr import VCR


FOLDER = Path(__file__).parent
NOWHERE = "http://model.invalid"
"""The host in every cassette: a request that is not recorded would reach nobody."""
RANDOM = re.compile(rb"(?<=evidence )[0-9a-f]{8}")
"""The ids that we show of evidence are given at random."""
QUOTATION = re.compile(rb"\[(\d{6})\](?: Quoted.*?)\[/\1\]", re.DOTALL)
"""Its fence is made of what is inside, so that it is random where such an id is."""


class ReadableYaml:
    """Text in any language stays readable in a diff."""

    @staticmethod
    def serialize(cassette: dict[str, Any]) -> str:
        return str(yaml.safe_dump(cassette, allow_unicode=True, sort_keys=False, width=100))

    @staticmethod
    def deserialize(text: str) -> Any:
        return yaml.safe_load(text)


def _request(request: Any) -> Any:
    kept = copy.copy(request)
    kept.uri = NOWHERE + urlsplit(request.uri).path
    kept.headers = _typed(request.headers)
    kept.body = QUOTATION.sub(_steady, RANDOM.sub(b"00000000", request.body))
    return kept


def _steady(quotation: re.Match[bytes]) -> bytes:
    """The quotation, with a fence of zeros where it has the id of evidence."""
    text = quotation[0]
    return text.replace(quotation[1], b"000000") if b"evidence 00000000" in text else text


def _response(response: dict[str, Any]) -> dict[str, Any]:
    return {**response, "headers": _typed(response["headers"])}


def _typed(headers: Any) -> dict[str, Any]:
    return {name.lower(): each for name, each in headers.items() if name.lower() == "content-type"}


def tape(name: str, *, record: bool = False, folder: Path = FOLDER) -> AbstractContextManager[Any]:
    """Replays `langchain/chat.yaml` for the name `langchain/chat`; or records it anew.

    A request is matched by method, path and body: one that is not as it was recorded is an error.
    """
    machine = VCR(
        record_mode="all" if record else "none",
        match_on=["method", "path", "body"],
        serializer="readable",
        before_record_request=_request,
        before_record_response=_response,
        decode_compressed_response=True,
    )
    machine.register_serializer("readable", ReadableYaml)
    path = folder / f"{name}.yaml"
    if record:
        path.unlink(missing_ok=True)
    found: AbstractContextManager[Any] = machine.use_cassette(str(path))
    return found


def names() -> set[str]:
    """Every cassette that there is."""
    return {str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.yaml")}
