"""Contract: the model gets the history that the app sends; that of the session only where the app asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ce_integrations.identity.session import ce_session
from ce_integrations.install.adapter import Way
from ce_integrations.testing.adapter_ends import Ends
from ce_integrations.testing.contract_case import QUESTIONS, echo
from ce_integrations.testing.framework_apps import needs
from ce_integrations.testing.side_by_side import SESSION, AppRun, SideBySide
from ce_integrations.testing.wire import Wire


class History(Ends):
    """What goes in of what was said before, for apps that are made anew for each question."""

    def test_what_was_said_before_does_not_go_in_unasked(self, trial: SideBySide, way: Way) -> None:
        plain = self.anew(trial, way, QUESTIONS, install=False)
        ce_texts = self.anew(trial, way, QUESTIONS)
        assert ce_texts == plain
        questions = [m.content for m in trial.document().session.messages if m.role == "user"]
        assert questions == list(QUESTIONS), "and it is recorded all the same"

    @needs("history")
    def test_what_was_said_before_goes_in_where_it_is_asked_for(
        self, trial: SideBySide, way: Way
    ) -> None:
        (first, second) = self.anew(trial, way, QUESTIONS, history=True)
        assert first == self.anew(trial, way, QUESTIONS[:1], install=False)[0]
        talk = [QUESTIONS[0], f"heard: {QUESTIONS[0]}"]
        assert [words for words in talk if words in second] == talk
        with ce_session(SESSION, history=False):
            off = self.anew(trial, way, QUESTIONS[1:], history=True)
        assert off == self.anew(trial, way, QUESTIONS[1:], install=False)
        with ce_session(SESSION, history=True):
            (on,) = self.anew(trial, way, QUESTIONS[1:])
        assert QUESTIONS[0] in on

    @needs("surfaces")
    def test_a_prompt_that_stands_alone_never_gets_what_was_said_before(
        self, trial: SideBySide, surface: str
    ) -> None:
        """Also where the app asks for history: it is a chain's or engine's, not a model's."""
        with ce_session(SESSION, history=True):
            self.through(trial, surface)
            plain, ce_run = self.through(trial, surface)
        assert (ce_run.raw == plain.raw) is not self.surfaces[surface].history

    @needs("surfaces")
    def test_whoever_asks_again_sends_the_same(self, trial: SideBySide, surface: str) -> None:
        self.through(trial, surface)
        plain, ce_run = self.through(trial, surface)
        assert ce_run.raw == plain.raw
        assert ce_run.result == plain.result

    def through(self, trial: SideBySide, surface: str) -> tuple[AppRun, AppRun]:
        """One of the ways in, without us and with us."""
        raise NotImplementedError

    def anew(
        self,
        trial: SideBySide,
        way: Way,
        texts: Sequence[str],
        *,
        install: bool = True,
        **options: Any,
    ) -> list[str]:
        """Each question to a new app in one session, as a server does it; gives what went out."""
        targets = []
        with Wire(echo) as wire:
            for words in texts:
                targets.append(self.make_target(wire))
                if install:
                    install_options = {"engine": trial.engine, **options}
                    with self.adapter.install_ce(targets[-1], **install_options):
                        trial.ask(targets[-1], words, way)
                else:
                    trial.ask(targets[-1], words, way)
            return [str(body["messages"]) for body in wire.bodies]
