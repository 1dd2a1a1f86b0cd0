"""A process runs its steps with the kernel that it is given: what they ask is governed."""

from __future__ import annotations

from typing import Any

import pytest
from semantic_kernel import Kernel
from semantic_kernel.functions import kernel_function
from semantic_kernel.processes import ProcessBuilder
from semantic_kernel.processes.kernel_process import (
    KernelProcessEvent,
    KernelProcessStep,
    KernelProcessStepContext,
)
from semantic_kernel.processes.local_runtime.local_kernel_process import start

from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.wire import Wire


KERNELS: list[Kernel] = []
"""The app's kernel: steps are made by the framework."""


class Ask(KernelProcessStep):  # type: ignore[type-arg]  # without a state
    @kernel_function
    async def ask(self, context: KernelProcessStepContext) -> None:
        answer = await KERNELS[-1].invoke_prompt("What is a lane?")
        await context.emit_event(process_event="asked", data=str(answer))


class Check(KernelProcessStep):  # type: ignore[type-arg]  # without a state
    @kernel_function
    async def check(self, words: str) -> None:
        await KERNELS[-1].invoke_prompt("Is it so? {{$words}}", words=words)


@pytest.mark.scenario(12)
@pytest.mark.req("A-23")
async def test_a_process_of_two_steps(service: Any, engine: Any, stored: Any) -> None:
    builder: Any = ProcessBuilder(name="asking")  # type: ignore[call-arg]  # it has a default
    asks, checks = builder.add_step(Ask), builder.add_step(Check)
    builder.on_input_event("go").send_event_to(target=asks)
    asks.on_event("asked").send_event_to(target=checks, parameter_name="words")
    with Wire(lambda body: f"heard: {body['messages'][-1]['content']}") as wire:
        KERNELS.append(Kernel(services=[service(wire)]))
        with install_ce(KERNELS[-1], engine=engine), ce_session("s"):
            await start(builder.build(), KERNELS[-1], KernelProcessEvent(id="go"))
        assert len(wire.bodies) == 2
    KERNELS.clear()
    assert [words for _, words in stored.said()] == [
        "What is a lane?",
        "heard: What is a lane?",
        "Is it so? heard: What is a lane?",
        "heard: Is it so? heard: What is a lane?",
    ]
