"""Everything that the store has of a session, without what differs from run to run: ids and times."""

from __future__ import annotations

from typing import Any

from ce_engine import ContextEngine, Scope


def rows(engine: ContextEngine, session_id: str) -> dict[str, list[Any]]:
    """Messages, tool calls, usage, evidence and turns, links shown as what they lead to."""
    assert engine.sync.flush()
    scope = Scope(session_id=session_id)
    document = engine.loop.run(engine.store.get_session(scope))
    assert document is not None, f"no session {session_id!r}"
    turns = engine.loop.run(engine.store.list_turns(scope))
    told, requests = document.evidences, list(dict.fromkeys(t.request_id for t in turns))
    session = document.session
    return {
        "messages": [
            (
                str(m.role),
                m.content,
                m.status,
                sorted(told[r.evidence_id].content for r in m.refs or ()),
            )
            for m in session.messages
        ],
        "tool calls": sorted(
            (
                c.tool,
                str(c.args_digest),
                str(c.status),
                [told[e].content for e in c.result_evidence_ids],
            )
            for c in session.tool_state.tool_calls
        ),
        "usage": [
            (str(u.stage), u.model, u.prompt_tokens, u.completion_tokens, u.total_tokens, u.params)
            for u in session.model_usage
        ],
        "evidence": sorted((str(e.type), e.content) for e in told.values()),
        "turns": [
            (
                *(t.lane, t.purpose, str(t.status), t.attempt, requests.index(t.request_id)),
                *(t.report.get(key) for key in ("token_used", "dropped", "shortened")),
            )
            for t in turns
        ],
    }
