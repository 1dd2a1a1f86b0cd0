"""What AutoGen's own tests import from a package of its repository that is not published."""

from __future__ import annotations

from dataclasses import dataclass

from autogen_core import (
    BaseAgent,
    Component,
    ComponentBase,
    ComponentModel,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    default_subscription,
    message_handler,
)
from pydantic import BaseModel


@dataclass
class MessageType: ...


@dataclass
class CascadingMessageType:
    round: int


class NoopAgent(BaseAgent):
    """Is told everything and does nothing."""

    def __init__(self) -> None:
        super().__init__("does nothing")

    async def on_message_impl(self, message: object, ctx: MessageContext) -> None:
        """Nothing."""


class LoopbackAgent(RoutedAgent):
    """Gives back what it is told."""

    def __init__(self) -> None:
        super().__init__("gives back")
        self.num_calls = 0
        self.received_messages: list[object] = []

    @message_handler
    async def on_told(self, message: MessageType, ctx: MessageContext) -> MessageType:
        self.num_calls += 1
        self.received_messages.append(message)
        return message


@default_subscription
class LoopbackAgentWithDefaultSubscription(LoopbackAgent):
    """The same, of the default topic."""


@default_subscription
class CascadingAgent(RoutedAgent):
    """Says to everybody that another round begins, up to the last one."""

    def __init__(self, max_rounds: int) -> None:
        super().__init__("goes on")
        self.num_calls = 0
        self.max_rounds = max_rounds

    @message_handler
    async def on_round(self, message: CascadingMessageType, ctx: MessageContext) -> None:
        self.num_calls += 1
        if message.round < self.max_rounds:
            again = CascadingMessageType(message.round + 1)
            await self.publish_message(again, topic_id=DefaultTopicId())


class InnerConfig(BaseModel):
    inner_message: str


class MyInnerComponent(ComponentBase[InnerConfig], Component[InnerConfig]):
    component_type = "custom"
    component_config_schema = InnerConfig

    def __init__(self, inner_message: str) -> None:
        self.inner_message = inner_message

    def _to_config(self) -> InnerConfig:
        return InnerConfig(inner_message=self.inner_message)

    @classmethod
    def _from_config(cls, config: InnerConfig) -> MyInnerComponent:
        return cls(config.inner_message)


class OuterConfig(BaseModel):
    outer_message: str
    inner_class: ComponentModel


class MyOuterComponent(ComponentBase[OuterConfig], Component[OuterConfig]):
    component_type = "custom"
    component_config_schema = OuterConfig

    def __init__(self, outer_message: str, inner_class: MyInnerComponent) -> None:
        self.outer_message = outer_message
        self.inner_class = inner_class

    def _to_config(self) -> OuterConfig:
        inner = self.inner_class.dump_component()
        return OuterConfig(outer_message=self.outer_message, inner_class=inner)

    @classmethod
    def _from_config(cls, config: OuterConfig) -> MyOuterComponent:
        return cls(config.outer_message, MyInnerComponent.load_component(config.inner_class))
