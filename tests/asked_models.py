"""The agents of examples/ with a function as their model, in one process and without a wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

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
