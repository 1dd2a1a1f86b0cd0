"""What adapters get wrong, done to the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from ce_engine import ToolCallStatus
from ce_integrations import base, session
from ce_integrations import hooks as hooks_module
from ce_integrations.base import Hooks, Turn
from ce_integrations.calls import GovernedCall
from ce_integrations.guard import Guard
from ce_integrations.langchain import injection
from ce_integrations.langchain.installer import LangChainAdapter
from ce_integrations.runs import OpenRuns


FORGOTTEN: list[Callable[[], None]] = []
"""What a mutant did not do, to be done after its test."""

Patch = pytest.MonkeyPatch
Mutate = Callable[[Patch], None]


def observes_only(patch: Patch) -> None:
    """What is assembled never goes out."""
    patch.setattr(Hooks, "_natives", lambda _, natives, __: natives)


def rebuilds_always(patch: Patch) -> None:
    """Copies go out where nothing changed."""
    ready = Hooks._ready

    def rebuilt(self: Any, *args: Any) -> Any:
        sent, turn = ready(self, *args)
        return [native.model_copy() for native in sent], turn

    patch.setattr(Hooks, "_ready", rebuilt)


def forgets_to_detach(patch: Patch) -> None:
    """What was attached stays."""
    attach = LangChainAdapter.attach

    def attached(self: Any, target: Any, hooks: Any) -> Any:
        FORGOTTEN.append(attach(self, target, hooks))
        return lambda: None

    patch.setattr(LangChainAdapter, "attach", attached)


def splits_a_pair(patch: Patch) -> None:
    """A result is left out, and its call is not."""
    natives_of = Hooks._natives

    def split(self: Any, natives: Any, prepared: Any) -> Any:
        sent = natives_of(self, natives, prepared)
        results = [n for n, native in enumerate(sent) if native.type == "tool"]
        return [native for n, native in enumerate(sent) if n not in results[:1]]

    patch.setattr(Hooks, "_natives", split)


def shuffles(patch: Patch) -> None:
    """Whole pairs go out, in another order."""
    natives_of = Hooks._natives

    def shuffled(self: Any, natives: Any, prepared: Any) -> Any:
        sent = natives_of(self, natives, prepared)
        at = [n for n, native in enumerate(sent) if getattr(native, "tool_calls", ())]
        if len(at) < 2:
            return sent
        (first, second), end = at[-2:], len(sent)
        return [*sent[:first], *sent[second:end], *sent[first:second]]

    patch.setattr(Hooks, "_natives", shuffled)


def drops_the_guard(patch: Patch) -> None:
    """Our faults reach the app."""
    patch.setattr(Guard, "swallows", lambda *_: False)


def mixes_sessions(patch: Patch) -> None:
    """Everybody's words are in one session."""
    resolve = session.resolve

    def everybody(info: Any, choice: Any, messages: Any = ()) -> Any:
        info.session_id = "everybody"
        return resolve(info, choice, messages)

    patch.setattr(hooks_module, "resolve", everybody)


def records_twice(patch: Patch) -> None:
    """Each layer of a call asks for itself."""
    patch.setattr(injection, "is_inside", lambda _: False)
    entry = injection.MAKERS[BaseChatModel]

    def governed(original: Any) -> Any:
        def invoke(self: Any, given: Any, config: Any = None, **kwargs: Any) -> Any:
            call = injection._stream_call(self, given, config, kwargs, "invoke")
            if call is None:
                return original(self, given, config, **kwargs)
            return call.run(
                lambda goes: original(self, goes[0], config, **kwargs),
                lambda answer: [(answer, None)],
            )

        return invoke

    patch.setitem(entry, "invoke", governed)


def awaits_on_the_app_s_loop(patch: Patch) -> None:
    """An async app's loop is blocked while we wait."""

    async def blocking(self: Any, natives: Any, info: Any) -> Any:
        return Hooks.before_model(self, natives, info)

    patch.setattr(Hooks, "abefore_model", blocking)


def ignores_async(patch: Patch) -> None:
    """What is awaited goes out as it is."""

    async def passed(self: Any, invoke: Any, answers: Any) -> Any:
        return await invoke(self.given)

    patch.setattr(GovernedCall, "arun", passed)


def loses_the_last_chunk(patch: Patch) -> None:
    """The end of a streamed answer is not recorded."""
    merged = injection._merged

    def shorter(chunks: list[Any]) -> Any:
        spoken = [n for n, chunk in enumerate(chunks) if chunk.content]
        return merged([chunk for n, chunk in enumerate(chunks) if n not in spoken[-1:]])

    patch.setattr(injection, "_merged", shorter)


def swallows_cancellation(patch: Patch) -> None:
    """Who is cancelled leaves an open turn."""

    async def nothing(*_: Any) -> None:
        return None

    patch.setattr(Hooks, "afailed", nothing)


def swallows_the_app_s_errors(patch: Patch) -> None:
    """A provider's error comes as one of ours."""
    run = GovernedCall.run

    def ours(self: Any, invoke: Any, answers: Any) -> Any:
        try:
            return run(self, invoke, answers)
        except Exception as error:
            raise RuntimeError("context engineering failed") from error

    patch.setattr(GovernedCall, "run", ours)


def calls_estimates_real(patch: Patch) -> None:
    """What is estimated is not marked."""
    estimated = Hooks._estimated

    def unmarked(self: Any, turn: Turn, answer: Any) -> Any:
        usage = estimated(self, turn, answer)
        object.__setattr__(usage, "estimated", False)
        return usage

    patch.setattr(Hooks, "_estimated", unmarked)


def commits_on_the_app_s_loop(patch: Patch) -> None:
    """An async app's loop is blocked while its answer is recorded."""

    async def blocking(self: Any, turn: Any, native: Any, usage: Any = None) -> None:
        Hooks.after_model(self, turn, native, usage)

    patch.setattr(Hooks, "aafter_model", blocking)


def fails_on_the_app_s_loop(patch: Patch) -> None:
    """An async app's loop is blocked while an error is recorded."""

    async def blocking(self: Any, turn: Any, error: Any, text: str = "") -> None:
        Hooks.failed(self, turn, error, text)

    patch.setattr(Hooks, "afailed", blocking)


def gathers_streams(patch: Patch) -> None:
    """The app gets a stream when it is at its end."""
    stream = GovernedCall.stream
    patch.setattr(GovernedCall, "stream", lambda *args: iter([*stream(*args)]))


def changes_the_app_s_messages(patch: Patch) -> None:
    """A shorter text is written into the app's own message."""
    to_native = LangChainAdapter.to_native

    def written(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        if native is None:
            return made
        native.content = made.content
        return native

    patch.setattr(LangChainAdapter, "to_native", written)


def changes_the_app_s_list(patch: Patch) -> None:
    """What goes out is written into the list that was given."""
    natives_of = Hooks._natives

    def written(self: Any, natives: Any, prepared: Any) -> Any:
        natives[:] = natives_of(self, natives, prepared)
        return natives

    patch.setattr(Hooks, "_natives", written)


def drops_calls_that_it_shortens(patch: Patch) -> None:
    """A message that is made anew has lost its tool calls."""
    to_native = LangChainAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        return made.model_copy(update={"tool_calls": []}) if hasattr(made, "tool_calls") else made

    patch.setattr(LangChainAdapter, "to_native", bare)


def tells(**wrong: Any) -> Mutate:
    """What is told of a call is wrong."""

    def mutate(patch: Patch) -> None:
        info_of = injection._info

        def told(*args: Any) -> Any:
            info = info_of(*args)
            for name, value in wrong.items():
                setattr(info, name, value)
            return info

        patch.setattr(injection, "_info", told)

    mutate.__name__ = f"tells_wrong_{'_'.join(wrong)}"
    return mutate


def calls_errors_of_tools_results(patch: Patch) -> None:
    """A tool that failed is recorded as one that did not."""
    ended = OpenRuns._tool
    success = ToolCallStatus.SUCCESS
    patch.setattr(
        OpenRuns, "_tool", lambda self, run, said, *_: ended(self, run, said, success, "")
    )


def forgets_which_call_a_result_answers(patch: Patch) -> None:
    """Results are evidence of nothing."""
    begin = OpenRuns.begin
    patch.setattr(OpenRuns, "begin", lambda self, *args: begin(self, *args[:4]))


def installs_twice(patch: Patch) -> None:
    """Who installs again has two installations."""
    patch.setattr(base, "_installation", base.Installation)


def loses_usage(patch: Patch) -> None:
    """What the provider told is estimated."""
    patch.setattr(LangChainAdapter, "map_model_usage", lambda *_: None)
    patch.setattr(injection, "_usage_of_text", lambda *_: None)
