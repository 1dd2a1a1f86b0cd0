"""`ce handover`: a run that failed, in words and as a package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ce_engine import Handover, create_context_engine, json_schema
from ce_engine.testing.host import HostApp, tool_calls, user
from tests.hosts.cli_host import TALK, ce, url_of


@pytest.mark.req("B-06")
def test_a_failed_run_in_words_and_as_json(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(url)
    app = HostApp(engine, TALK)
    app.commit(app.prepare(user("Pay the invoice.")), tool_calls(("c", "pay", {"amount": 12})))
    app.messages.pop()
    for _ in range(3):
        engine.sync.fail(app.prepare(new_request=False).turn, "RATE_LIMIT")
    engine.sync.close()
    place = (TALK.session_id, "--store", url, "--account", TALK.account_id)
    shown = ce("handover", *place, columns=120)
    assert shown.exit_code == 0, shown.stderr
    for words in ("failed", "Pay the invoice.", "pay(amount=12)", "open", "RATE_LIMIT", "trigger"):
        assert words in shown.stdout
    package = Handover.model_validate(json.loads(ce("handover", *place, "--json").stdout))
    assert [step.status for step in package.steps] == ["done", "open", "failed"]
    assert json.loads(ce("schema", "handover").stdout) == json_schema("handover")
