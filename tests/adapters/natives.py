"""A framework's plain messages, for tests that go round the frameworks."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from ce_integrations import Adapter


class Natives:
    """What a framework's own messages are made of."""

    adapter: ClassVar[Adapter[Any, Any]]

    def user(self, text: str) -> Any:
        raise NotImplementedError

    def answer(self, text: str) -> Any:
        raise NotImplementedError

    def calls(self, *ids: str, arguments: str = "{}") -> Any:
        raise NotImplementedError

    def result(self, call_id: str, text: str) -> Any:
        raise NotImplementedError

    def reply(self, text: str) -> Any:
        """What the framework's model gives."""
        return self.answer(text)


def read(arguments: str) -> dict[str, Any]:
    """Arguments of a call for frameworks that take no text; what is no object stands under a name."""
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"text": arguments}
