"""What every token estimator and every redactor must do, as tests (A-08, A-19, A-27).

Subclass a suite and give it a fixture of the part's name.
"""

from __future__ import annotations

import copy
from typing import Any

from ce_engine.ports.redaction import Redactor
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role


TEXTS = ("Hello.", "订单在哪里？明天到。", '{"a": [1, 2]}', "x" * 1000, "🙂" * 20)
KEY = b"k" * 32


class TokenEstimatorContract:
    """Everything that `ports.TokenEstimator` promises. A subclass gives a fixture `token_estimator`."""

    def test_a_text_has_tokens_and_no_text_has_none(self, token_estimator: TokenEstimator) -> None:
        assert token_estimator.estimate_text("") == 0
        for text in TEXTS:
            assert token_estimator.estimate_text(text) >= 1

    def test_it_is_pure(self, token_estimator: TokenEstimator) -> None:
        once = [token_estimator.estimate_text(text) for text in TEXTS]
        assert [token_estimator.estimate_text(text) for text in TEXTS] == once

    def test_a_longer_text_never_costs_less(self, token_estimator: TokenEstimator) -> None:
        for text in TEXTS:
            costs = [token_estimator.estimate_text(text * n) for n in (1, 2, 5, 20)]
            assert costs == sorted(costs)

    def test_a_message_has_its_framing_and_a_list_its_priming(
        self, token_estimator: TokenEstimator
    ) -> None:
        messages = [Message(role=Role.USER, content=text) for text in TEXTS]
        counts = [token_estimator.estimate_message(m.role, m.content) for m in messages]
        for message, tokens in zip(messages, counts, strict=True):
            assert tokens > token_estimator.estimate_text(message.content)
        assert token_estimator.estimate_messages(messages) >= sum(counts)

    def test_it_says_what_it_is(self, token_estimator: TokenEstimator) -> None:
        assert token_estimator.name
        assert isinstance(token_estimator.exact_for("no-such-model"), bool)
        assert token_estimator.describe("no-such-model")


class RedactorContract:
    """Everything that `ports.Redactor` promises. A subclass gives a fixture `redactor`.

    Attributes:
        secret: a text that it takes out; the default is a mail address.
    """

    secret = "zhang.wei@example.com"  # noqa: S105 - of a test

    def test_what_is_taken_out_is_nowhere(self, redactor: Redactor) -> None:
        bound = redactor.bind(KEY, [], "en")
        done = bound.text(f"写信给 {self.secret}, or to {self.secret}.")
        assert self.secret not in done.text
        assert done.count >= 1
        assert done.rules
        assert done.has_sensitive

    def test_what_is_harmless_stays_as_it_is(self, redactor: Redactor) -> None:
        for text in ("", "The ship sails at dawn.", "天气很好。"):
            done = redactor.bind(KEY, [], "en").text(text)
            assert (done.text, done.count, done.has_sensitive) == (text, 0, False)

    def test_doing_it_again_changes_nothing(self, redactor: Redactor) -> None:
        bound = redactor.bind(KEY, [], "en")
        once = bound.text(f"to {self.secret}").text
        assert bound.text(once).text == once

    def test_the_same_value_has_the_same_placeholder_after_a_restart_too(
        self, redactor: Redactor
    ) -> None:
        first = redactor.bind(KEY, [], "en")
        once = first.text(self.secret).text
        again = redactor.bind(KEY, first.learned(), "en")
        assert again.text(self.secret).text == once
        assert first.learned() == []

    def test_data_is_redacted_in_a_copy(self, redactor: Redactor) -> None:
        data: Any = {"to": [self.secret, {"n": 1}], "note": "天气很好"}
        before = copy.deepcopy(data)
        done = redactor.bind(KEY, [], "en").data(data)
        assert data == before
        assert self.secret not in str(done.value)
        assert done.value["note"] == "天气很好"
        assert done.count >= 1

    def test_it_knows_only_what_it_took_out_itself(self, redactor: Redactor) -> None:
        bound = redactor.bind(KEY, [], "en")
        text = bound.text(f"to {self.secret}").text
        assert bound.restore(text).text == f"to {self.secret}"
        other = redactor.bind(KEY, bound.learned(), "en")
        assert self.secret not in other.restore(text).text

    def test_it_has_a_version(self, redactor: Redactor) -> None:
        assert redactor.version
