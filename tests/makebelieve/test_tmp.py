from __future__ import annotations
import pytest
from ce_acme import ADAPTER
from test_ce_acme import AcmeApps
from ce_integrations.testing.trial import Trial
from ce_integrations.testing.answers import text, tool_calls, error

def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means {len(word)}"

S = [tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "turn"})]), text("A lane and a turn."), error(500,"x"), text("Well then")]

@pytest.mark.parametrize("way", ["sync","async","stream","astream"])
def test_same(way):
    with Trial(AcmeApps()) as trial:
        d = trial.asking(["What? 车道","b","c"], way)
        plain = trial.plain(d, S, [lookup])
        ours = trial.ours(d, S, [lookup])
        print(plain.result)
        assert ours.result == plain.result
        assert ours.raw == plain.raw
        print(trial.document().model_dump_json(indent=1, exclude_none=True)[:6000])
