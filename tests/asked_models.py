"""The agents of examples/ with a function as their model, in one process, without a wire or with one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from simulated import simulated

from examples.chat import Answer, ToolCall
from rotoscope.replayer.simulator import model as simulator
from rotoscope.replayer.simulator.wire import ChatBody, messages_of, parse


@dataclass
class Asked:
    """A model that is a function, and what it was asked and said."""

    function: Callable[[simulator.ModelRequest], simulator.Answer]
    seed: int = 0
    requests: list[simulator.ModelRequest] = field(default_factory=list)
    answers: list[simulator.Answer] = field(default_factory=list)

    async def __call__(
        self, messages: Sequence[ChatCompletionMessageParam], tools: Sequence[ChatCompletionToolParam] = ()
    ) -> Answer:
        """Return what the function says; other conversations have their turn before."""
        await asyncio.sleep(0)
        body = parse(ChatBody, {"messages": list(messages), **({"tools": list(tools)} if tools else {})})
        request = simulator.ModelRequest(
            np.empty(0, np.uint32), messages=messages_of(body), tools=tuple(body.tools or ()), seed=self.seed
        )
        said = self.function(request)
        self.requests.append(request)
        self.answers.append(said)
        calls = {
            rank: ToolCall(f"call{len(self.answers)}_{rank}", call.name, call.arguments)
            for rank, call in enumerate(said.tool_calls)
        }
        return Answer(said.text, calls)


def over_the_wire(agent: Any, model: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the module of an agent in front of a server of this model; return the exit status."""

    async def run_it() -> int:
        async with simulated(model) as client:
            monkeypatch.setenv("OPENAI_BASE_URL", f"{client.url}/v1")
            status: int = await asyncio.to_thread(agent.main, arguments)
            return status

    return asyncio.run(run_it())
