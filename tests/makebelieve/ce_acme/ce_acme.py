"""Context engineering for Acme agents: the whole adapter."""

from __future__ import annotations

from dataclasses import replace

from acme_agents import Agent, Listener, Message, ToolCall, join

import ce_engine as ce
from ce_integrations.install.adapter import Adapter, CallInfo, Capabilities, Detach, Hooks
from ce_integrations.install.marks import Mark, Marking, heard
from ce_integrations.mapping.content_blocks import call_args, call_texts, changed, tool_requests
from ce_integrations.mapping.usage import usage_of


ORIGINS = {"system": "system", "user": "task", "assistant": "answer", "tool": "tool_result"}
METHODS = ("ask_model", "aask_model", "stream_model", "astream_model")
INJECTION = Marking("listeners", {Agent: METHODS}, text=lambda piece: piece.text, join=join)


class Recorder(Mark, Listener):
    """Recorder: stands among an agent's listeners, knows its calls, and hears its tools."""

    def info(self, agent: Agent) -> CallInfo:
        info = CallInfo(self.request_id, agent=agent.name, conversation=agent)
        info.model, info.tools = agent.model.name, agent.schemas
        return info

    @heard
    def on_run_start(self, agent: Agent, text: str) -> None:
        self.new_request()

    @heard
    def on_tool_start(self, agent: Agent, call: ToolCall) -> None:
        key, args = self.request_id + call.id, call_args(vars(call))
        self.runs.begin(key, call.name, args, self.info(agent), call.id)

    @heard
    def on_tool_end(self, agent: Agent, call: ToolCall, result: Message) -> None:
        self.runs.tool_ended(self.request_id + call.id, result.text, failed=result.failed)


class AcmeAdapter(Adapter[Agent, Message]):
    """Installer (`accepts`, `attach`) and Mapper (the rest)."""

    name, requires, targets = "acme", ("acme-agents>=2,<3",), "an Agent"
    capabilities = Capabilities(threads=False)

    def accepts(self, target: object) -> bool:
        return isinstance(target, Agent)

    def attach(self, target: Agent, hooks: Hooks[Message]) -> Detach:
        hooks.agents.update(agent.name for agent in INJECTION.find_parts(target))
        return INJECTION.attach(target, hooks, Recorder)

    def is_attached(self, target: Agent) -> bool:
        return INJECTION.is_attached(target)

    def to_schema(self, native: Message) -> ce.HostMessage:
        calls, texts = tool_requests(native.calls), call_texts(native.calls)
        author = ce.Author(kind=ce.AuthorKind.USER, id=native.speaker) if native.speaker else None
        message = ce.Message(role=ce.Role(native.role), content=native.text, author=author)
        message.tool_calls, message.tool_call_id = calls or None, native.answers or None
        origin = ce.Origin("tool_call" if calls else ORIGINS[native.role])
        return ce.HostMessage(message, origin, error=native.failed, arguments=texts)

    def to_native(self, step: ce.Step, native: Message | None) -> Message:
        if native is None:
            role = step.role if isinstance(step, ce.Insert) else ce.Role.SYSTEM
            return Message(role.value, changed("", step))
        return replace(native, text=changed(native.text, step))

    def parts(self, native: Message) -> tuple[object, ...]:
        return native.text, native.calls, len(native.calls), native.failed

    def map_model_usage(self, native: Message) -> ce.Usage | None:
        return usage_of(native.usage)


ADAPTER = AcmeAdapter()
