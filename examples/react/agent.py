"""A ReAct coding agent: ask the model, run the tools it calls, tell it what they returned, until it finishes.

It works on a copy of the toy repository in a scratch folder, with the faults of its task. Whether it succeeded is decided by the tests, not by what
the model says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from examples import tasks
from examples.chat import Answer, add_options, agent, at_least_one, joined, understood, whole
from examples.schemas import schema
from rotoscope import trace_agent

from .faults import leave_only
from .shell import run_shell
from .tools import Workspace

HERE = Path(__file__).parent
TOY_REPOSITORY = HERE / "toy_repository"
TEST_COMMAND = "python -m unittest discover tests"
GO_ON = "Call a tool to go on, or `finish` when you are done."


Ask = Callable[[Sequence[ChatCompletionMessageParam], Sequence[ChatCompletionToolParam]], Answer]
"""From a conversation and the tools there are to the model's answer."""


@dataclass(frozen=True)
class Model:
    """A model behind an OpenAI-compatible endpoint."""

    client: OpenAI
    name: str
    stream: bool = True
    seed: int | None = None

    def ask(self, messages: Sequence[ChatCompletionMessageParam], tools: Sequence[ChatCompletionToolParam]) -> Answer:
        """Return the model's answer to the conversation so far."""
        create = self.client.chat.completions.create
        more = None if self.seed is None else {"seed": self.seed}
        with understood():
            if not self.stream:
                return whole(create(model=self.name, messages=messages, tools=tools, extra_body=more))
            with create(model=self.name, messages=messages, tools=tools, extra_body=more, stream=True) as chunks:
                return joined(list(chunks))


@trace_agent(name="coder")
def work(ask: Ask, workspace: Workspace, *, max_steps: int) -> bool:
    """Let the model work until it says that it is done; return False when it did not within the steps it has."""
    tools = [schema(tool) for tool in workspace.tools.values()]
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": (HERE / "system.md").read_text(encoding="utf-8")},
        {"role": "user", "content": (HERE / "task.md").read_text(encoding="utf-8")},
    ]
    for step in range(1, max_steps + 1):
        answer = ask(messages, tools)
        messages.append(answer.message())
        print(f"step {step}: {' '.join(answer.text.split())}".rstrip(), flush=True)
        for call in answer.calls.values():
            result = workspace.call(call.name, call.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            print(f"    {call.name} {call.arguments[:90]}: {len(result.splitlines())} lines", flush=True)
        if workspace.finished:
            return True
        if not answer.calls:
            messages.append({"role": "user", "content": GO_ON})
    return False


def judge(root: Path) -> bool:
    """Return whether the original tests pass on what the model left behind."""
    tests = root / "tests"
    if tests.is_dir() and not tests.is_symlink():
        shutil.rmtree(tests)
    else:
        tests.unlink(missing_ok=True)
    shutil.copytree(TOY_REPOSITORY / "tests", tests)
    ending, _ = run_shell(TEST_COMMAND, root, timeout_s=60)
    return ending == "exit status 0"


@agent
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent on a fresh copy of the toy repository; return 0 when the tests pass in the end, else 1."""
    options = parse_options(arguments)
    with (
        OpenAI(api_key=os.environ.get("OPENAI_API_KEY") or "none") as client,  # a server of one's own asks for no key
        tempfile.TemporaryDirectory(prefix="react-", ignore_cleanup_errors=True) as folder,
    ):
        root = Path(folder) / "repository"
        shutil.copytree(TOY_REPOSITORY, root, ignore=shutil.ignore_patterns("__pycache__"))
        leave_only(options.task["faults"].split(), root)
        model = Model(client, options.model, options.stream, options.seed)
        finished = work(model.ask, Workspace(root), max_steps=options.max_steps)
        passed = judge(root)
    ending = "the model finished" if finished else f"the model did not finish within {options.max_steps} steps"
    print(f"{ending}; the tests {'pass' if passed else 'fail'}")
    return 0 if finished and passed else 1


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.react",
        description="Repair the toy repository with a model behind OPENAI_BASE_URL (key: OPENAI_API_KEY).",
    )
    tasks.add_option(parser, HERE)
    add_options(parser)
    parser.add_argument(
        "--max-steps", type=at_least_one, default=40, help="answers after which it ends (default: %(default)s)"
    )
    return parser.parse_args(arguments)
