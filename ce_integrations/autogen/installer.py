"""Installs context engineering on AutoGen's objects: finds what runs in them, marks it, and undoes that."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.base import Adapter, Capabilities, Detach, Hooks, share
from ce_integrations.patches import ClassPatches, Make, put
from ce_integrations.walk import walk


if TYPE_CHECKING:
    from autogen_core.models import LLMMessage

PACKAGES = ("autogen_",)
RESULTS = "FunctionExecutionResultMessage"
PLAIN = frozenset({"SystemMessage", "UserMessage", "AssistantMessage"})
SERVED = ("autogen_ext.agents.openai.", "autogen_ext.agents.azure.")
"""Agents whose conversation a provider keeps: no message of it passes here."""

_patches = ClassPatches()


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


@lru_cache(256)
def _is_plain(kind: type) -> bool:
    """Whether a class of messages is one of those, and nobody's own of the same name."""
    return kind.__module__.startswith("autogen_core.models.") and kind.__name__ in PLAIN


class AutoGenAdapter(Adapter[Any, "LLMMessage"]):
    """AutoGen: agents, teams, model clients and core runtimes. Nothing is imported before an installation."""

    name = "autogen"
    requires = ("autogen-core>=0.6.2,<0.8",)  # before, tools are not told which call they answer
    targets = "an agent, a team, a model client or an agent runtime"
    capabilities = Capabilities(ways=("async", "astream"), threads=False)
    mapper = "ce_integrations.autogen.mapper"

    def accepts(self, target: object) -> bool:
        """Whether it is one of those; who has one has imported what it is made of."""
        return isinstance(target, _targets())

    def alike(self, native: LLMMessage) -> Hashable | None:
        """Kind, text and source of plain texts; `None` for calls, results and images."""
        kind, fields = native.__class__, native.__dict__
        content = fields["content"]
        if content.__class__ is not str or not _is_plain(kind):
            return None
        return kind, content, fields.get("source")

    def parts(self, native: LLMMessage) -> tuple[object, ...]:
        """Content and what it is made of, and the thought beside calls."""
        fields = native.__dict__
        content = fields["content"]
        inner = () if isinstance(content, str) else [getattr(c, "content", None) for c in content]
        return (content, len(content), fields.get("thought"), fields.get("source"), *inner)

    def split(self, native: LLMMessage) -> Sequence[LLMMessage]:
        """A message with the results of several calls is as many messages."""
        results = native.__dict__["content"]
        if native.__class__.__name__ != RESULTS or len(results) < 2:
            return (native,)
        return [native.model_copy(update={"content": [result]}) for result in results]

    def join(self, native: LLMMessage, parts: Sequence[LLMMessage]) -> LLMMessage:
        """And those that go out are one again."""
        results = [result for part in parts for result in part.__dict__["content"]]
        return native.model_copy(update={"content": results})

    def attach(self, target: Any, hooks: Hooks[LLMMessage]) -> Detach:
        from ce_integrations.autogen.marks import KEY, Mark, mark_of

        found = [each for each in walk(target, PACKAGES) if _is_marked(each, target)]
        _check_governable(found)
        wanted = {(cls, name): make for cls, name, make in _methods()}
        mark = Mark(hooks)
        mark.wrapped = frozenset(wanted)
        hooks.agents.update(name for each in found if (name := _spoken(each)))
        with ExitStack() as undo:
            held = [(cls, name, make) for (cls, name), make in wanted.items()]
            undo.callback(_patches.hold(held, mark))
            for each in found:
                if (other := mark_of(each)) is not None:
                    share(each, other.hooks, hooks, agreed=False)
                    continue
                undo.callback(
                    put(vars(each), KEY, lambda _: mark, lambda old: None if old is mark else old)
                )
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether all that is marked, and classes that were loaded since are wrapped."""
        from ce_integrations.autogen.marks import mark_of

        found = [each for each in walk(target, PACKAGES) if _is_marked(each, target)]
        marks = [mark_of(each) for each in found]
        wanted = {(cls, name) for cls, name, _ in _methods()}
        return all(mark is not None and wanted <= mark.wrapped for mark in marks)


def _targets() -> tuple[type, ...]:
    core, models = sys.modules.get("autogen_core"), sys.modules.get("autogen_core.models")
    chat = sys.modules.get("autogen_agentchat.base")
    kinds = [
        *(getattr(chat, name, None) for name in ("ChatAgent", "Team")),
        getattr(core, "AgentRuntime", None),
        getattr(models, "ChatCompletionClient", None),
    ]
    return tuple(kind for kind in kinds if isinstance(kind, type))


def _is_marked(each: object, target: object) -> bool:
    """Agents and teams; a client and a runtime only as the target: others may share them."""
    from ce_integrations.autogen.marks import chat_agents, teams

    return each is target or isinstance(each, (*chat_agents(), *teams()))


def _check_governable(found: list[Any]) -> None:
    for each in found:
        if any(cls.__module__.startswith(SERVED) for cls in type(each).__mro__):
            raise UnsupportedTargetError(
                f"the {type(each).__name__} {getattr(each, 'name', '')!r} keeps its conversation at "
                "the provider, where no message of it can be governed; expected agents that ask a "
                "ChatCompletionClient. Use an AssistantAgent with a model client in its place."
            )


def _spoken(each: Any) -> str:
    """The name under which an agent speaks; a proxy speaks for a person."""
    from ce_integrations.autogen.marks import chat_agents, loaded

    proxies = loaded("autogen_agentchat.agents", "UserProxyAgent")
    if not isinstance(each, chat_agents()) or isinstance(each, proxies):
        return ""
    return str(getattr(each, "name", ""))


def _methods() -> Iterator[tuple[type, str, Make]]:
    """What is wrapped, of all classes that are loaded: clients and agents are made and exchanged later."""
    from ce_integrations.autogen import injection, recorder, routing, steps

    makers = {**injection.MAKERS, **recorder.MAKERS, **routing.MAKERS, **steps.entries()}
    for base, by_name in makers.items():
        for cls in _subclasses(base):
            for name, make in by_name.items():
                method = vars(cls).get(name)
                if method is not None and not getattr(method, "__isabstractmethod__", False):
                    yield cls, name, make


def _subclasses(cls: type) -> set[type]:
    return {cls}.union(*map(_subclasses, cls.__subclasses__()))


ADAPTER = AutoGenAdapter()
install_ce = ADAPTER.install_ce
