"""What must hold in every document, each checkable (A-02)."""

from __future__ import annotations

from ce_engine.errors import SelectorResolveError
from ce_engine.schema.document import Ref, SessionDocument, refs_of, shape_problems
from ce_engine.schema.selectors import RefSelector


SELECTORS = RefSelector()


def check_invariants(
    document: SessionDocument,
    *,
    remote_refs: bool = False,
    selectors: RefSelector | None = SELECTORS,
) -> list[str]:
    """List what breaks the document's invariants (A-02); an empty list means none.

    Args:
        document: the document.
        remote_refs: refs to evidence that is kept elsewhere are not reported.
        selectors: reads the selectors of refs, and those that fail on content that is there are
            reported; `None` does not look at them: the engine goes on without one that fails.
    """
    problems = shape_problems(document, remote_refs=remote_refs)
    if selectors is not None:
        problems += [
            f"{place} refers to {ref.selector!r} of evidence {ref.evidence_id!r}: {problem}"
            for place, ref in refs_of(document)
            if (problem := _unresolved(document, ref, selectors))
        ]
    return problems


def _unresolved(document: SessionDocument, ref: Ref, selectors: RefSelector) -> str:
    evidence = document.evidences.get(ref.evidence_id)
    if not ref.selector or evidence is None or not evidence.content:
        return ""
    try:
        selectors.extract(evidence.content, ref.selector)
    except SelectorResolveError as error:
        return str(error)
    return ""
