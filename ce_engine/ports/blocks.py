"""The interface of what makes context blocks of a session's state (A-10); its docstrings are the specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ce_engine.schema.document import ContextBlock, Evidence, SessionDocument


@dataclass(frozen=True, slots=True)
class DeriveOptions:
    """What is derived.

    Attributes:
        include_conversation: messages, and the summary in place of those it covers.
        include_state: the tasks.
        include_evidences: the evidence that is handed in.
        custom_instructions: fixed blocks that go first, as they are.
        on_error: is told the id of each piece of evidence that could not be derived, and why.
    """

    include_conversation: bool = True
    include_state: bool = True
    include_evidences: bool = True
    custom_instructions: Sequence[ContextBlock] = ()
    on_error: Callable[[str, Exception], None] | None = None


class BlockDeriver(Protocol):
    """Makes context blocks of what a session holds."""

    async def derive(
        self,
        session_doc: SessionDocument,
        evidences: Sequence[Evidence],
        options: DeriveOptions | None = None,
    ) -> list[ContextBlock]:
        """Candidates for the model's input; of each kind oldest first, ids unique.

        Blocks that the document holds come along. Nothing that is handed in is changed. Evidence that
        cannot be derived is skipped and told to `options.on_error`; the rest goes on.
        """
        ...
