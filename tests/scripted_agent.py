"""The agent of examples/react with its scripted model, in one process and without a wire."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from examples.chat import Answer, ToolCall
from examples.react.agent import TOY_REPOSITORY, work
from examples.react.tools import Workspace
from rotoscope.replayer.simulator import model as simulator
from rotoscope.replayer.simulator.wire import ChatBody, messages_of, parse


@dataclass
class Played:
    """One run of the agent: what the model was sent and what it said."""

    workspace: Workspace
    requests: list[simulator.ModelRequest] = field(default_factory=list)
    answers: list[simulator.Answer] = field(default_factory=list)


def toy_workspace(folder: Path) -> Workspace:
    """Return the tools on a fresh copy of the toy repository."""
    root = folder / "repository"
    shutil.copytree(TOY_REPOSITORY, root, ignore=shutil.ignore_patterns("__pycache__"))
    return Workspace(root)


def play(
    model: Callable[[simulator.ModelRequest], simulator.Answer], folder: Path, *, seed: int = 0, max_steps: int = 40
) -> Played:
    """Run the agent on a fresh copy of the toy repository with a function as its model."""
    played = Played(toy_workspace(folder))

    def ask(messages: Sequence[ChatCompletionMessageParam], tools: Sequence[ChatCompletionToolParam]) -> Answer:
        body = parse(ChatBody, {"messages": list(messages), "tools": list(tools)})
        request = simulator.ModelRequest(
            np.empty(0, np.uint32), messages=messages_of(body), tools=tuple(body.tools or ()), seed=seed
        )
        said = model(request)
        played.requests.append(request)
        played.answers.append(said)
        calls = {
            rank: ToolCall(f"call{len(messages)}_{rank}", call.name, call.arguments)
            for rank, call in enumerate(said.tool_calls)
        }
        return Answer(said.text, calls)

    work(ask, played.workspace, max_steps=max_steps)
    return played
