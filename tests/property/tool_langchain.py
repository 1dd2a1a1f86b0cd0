"""Random tool histories through the LangChain adapter: how its chat models are asked, fakes and `ChatOpenAI`."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from ce_engine import RuntimeConfig
from ce_engine.schema.report import Report
from ce_integrations.langchain import install_ce
from ce_integrations.testing.answers import Answer, Call
from ce_integrations.testing.contract_case import count
from tests.property import tool_cases
from tests.property.tool_cases import TOOL
from tests.property.tool_judge import Seen, judge, judge_body
from tests.property.tool_messages import FAULTS, FORMS, Messages
from tests.property.tool_models import WAYS, Keeper, ProviderError, Streamer, ask
from tests.property.tool_oracle import Walk, answered, asked, cost


class Rig(tool_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self._clients: list[Any] = []

    async def aclose(self) -> None:
        if self._clients:
            self._clients[0].close()
            await self._clients[1].aclose()

    def chat(self) -> Any:
        """A `ChatOpenAI` that talks to the wire."""
        from langchain_openai import ChatOpenAI
        from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

        if not self._clients:
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            clients = (DefaultHttpxClient(verify=bare), DefaultAsyncHttpxClient(verify=bare))
            self._clients += clients
        return ChatOpenAI(
            model="gpt-4",
            base_url=self.wire.base_url,
            api_key="no key",  # type: ignore[arg-type]  # a plain key is taken
            max_retries=0,
            http_client=self._clients[0],
            http_async_client=self._clients[1],
        )


@dataclass
class Case(tool_cases.Case[BaseMessage]):
    """A host with a model that keeps what really reaches it, now and then with a real client of a server."""

    every = 20
    install = staticmethod(install_ce)

    rig: Rig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tools = [TOOL] if self.make.chance(0.3) else []
        self.copies = self.rng.choice((0.0, 0.0, 0.0, 0.5, 1.0))
        kind = self.rng.choice((Keeper, Streamer))
        named = self.rng.choice(("gpt-4", "gpt-4", "a-model-of-somebody"))
        self.model = self.rig.chat() if self.over_wire else kind(model_name=named)

    def messages(self) -> Messages:
        form, has_faults = self.rng.choice(FORMS), self.rng.random() < 0.7
        # A strict provider refuses a system message between results, whoever sends it.
        faults = tool_cases.FAULTS if self.over_wire else FAULTS
        made = Messages(self.rng, faults if has_faults else (), form=form)
        return replace(made, form="openai", odd=False) if self.over_wire else made

    def config(self) -> RuntimeConfig:
        config = super().config()
        return config.model_copy(update={"locale": self.rng.choice(("en", "zh"))})

    def asked(self, message: BaseMessage) -> list[str]:
        return asked(message)

    def answered(self, message: BaseMessage) -> list[str]:
        return answered(message)

    # The host

    def asks_first(self) -> None:
        assert isinstance(self.make, Messages)
        if self.make.chance(0.05) and self.make.faults:
            self.host.append(self.make.result("nobody-asked"))
        # A strict provider refuses a list that is a result alone, and so it should.
        if self.make.chance(0.95) or not self.host or self.over_wire:
            super().asks_first()

    def copied(self, message: BaseMessage) -> BaseMessage:
        return message.model_copy(update={"id": None}, deep=True)

    def waits(self, answer: BaseMessage) -> bool:
        return self.over_wire and bool(Walk.of(self.host).unanswered)

    def goes_on(self, answer: BaseMessage) -> None:
        super().goes_on(answer)
        if self.make.chance(0.05) and not self.over_wire:
            self.host.append(self.make.system())

    # One call

    def sends(self, installed: Any, says: BaseMessage) -> BaseMessage:
        assert isinstance(says, AIMessage)
        if self.over_wire:
            return self._over_wire(installed, says)
        if self.make.chance(0.05):
            self.model.say(ProviderError("busy"))
            _, whole = self._asks(installed)
            assert whole is None, "the provider's error is gone"
        self.model.say(says)
        found, whole = self._asks(installed)
        kept = [id(piece) for piece in found]
        assert all(id(piece) in kept for piece in self.model.given), "another answer"
        assert whole is not None
        return whole

    def _over_wire(self, installed: Any, says: AIMessage) -> AIMessage:
        calls = [Call(c["name"], json.dumps(c["args"]), c["id"]) for c in says.tool_calls]
        self.rig.answers = [Answer(content=str(says.content) or None, calls=tuple(calls))]
        _, whole = self._asks(installed)
        assert whole is not None
        assert (whole.content, len(whole.tool_calls)) == (says.content, len(says.tool_calls))
        return whole.model_copy(update={"additional_kwargs": says.additional_kwargs})

    def _asks(self, installed: Any) -> tuple[list[BaseMessage], AIMessage | None]:
        """What came back, piece by piece, and the whole of it; nothing where the provider failed."""
        way, given = self.rng.choice(WAYS), self.listed()
        self.counts[way] += 1
        options = {"tools": self.tools} if self.tools else {}
        with self.judged(given, installed):
            try:
                return ask(self.rig.loop, self.model, way, given, **options)
            except ProviderError:
                self.counts["provider errors"] += 1
                return [], None

    def judge(self, given: Sequence[BaseMessage], report: Report) -> None:
        seen = Seen(given, self.budget, report, self.tools, self.compact)
        if self.over_wire:
            body = self.rig.wire.bodies[-1]
            judge_body(seen, body, count(body))
        else:
            sent = self.model.asked[-1]
            judge(seen, sent, cost(sent, self.tools))
