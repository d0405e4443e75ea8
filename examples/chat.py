"""Asking a model behind an OpenAI-compatible endpoint, several questions at once if need be."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import ParamSpec, Protocol

from openai import APIConnectionError, AsyncOpenAI, OpenAIError
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessageParam,
    ChatCompletionToolParam,
)

from examples.programs import interruptible

P = ParamSpec("P")
REASON_LIMIT = 300
"""Characters of a server's reason that a person is shown."""


@dataclass
class ToolCall:
    """A tool that the model calls; the arguments are JSON as the model wrote it."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Answer:
    """What the model said. Its thinking, where a server shows it, is not kept and not sent back."""

    text: str = ""
    calls: dict[int, ToolCall] = field(default_factory=dict)

    def add(self, chunk: ChatCompletionChunk) -> None:
        """Take in the next piece of an answer that arrives in pieces."""
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or []:
                call = self.calls.setdefault(piece.index, ToolCall())
                call.id = piece.id or call.id
                if piece.function is not None:
                    call.name += piece.function.name or ""
                    call.arguments += piece.function.arguments or ""

    def readable(self) -> Answer:
        """Return the answer with half characters, which cannot be written or sent, joined or replaced."""
        self.text = whole_characters(self.text)
        for call in self.calls.values():
            call.id, call.name, call.arguments = map(whole_characters, (call.id, call.name, call.arguments))
        return self

    def message(self) -> ChatCompletionMessageParam:
        """Return the answer as it stands in the conversation from now on."""
        if not self.calls:
            return {"role": "assistant", "content": self.text}
        return {
            "role": "assistant",
            "content": self.text,
            "tool_calls": [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls.values()
            ],
        }


class Ask(Protocol):
    """From a conversation and the tools there are to the model's answer."""

    async def __call__(
        self, messages: Sequence[ChatCompletionMessageParam], tools: Sequence[ChatCompletionToolParam] = ()
    ) -> Answer:
        """Return what the model says next."""
        ...


@dataclass(frozen=True)
class Model:
    """A model behind an endpoint."""

    client: AsyncOpenAI
    name: str
    stream: bool = True
    seed: int | None = None

    async def ask(
        self, messages: Sequence[ChatCompletionMessageParam], tools: Sequence[ChatCompletionToolParam] = ()
    ) -> Answer:
        """Return the model's answer to the conversation so far."""
        create = self.client.chat.completions.create
        more: dict[str, object] = {} if self.seed is None else {"seed": self.seed}
        if tools:
            more["tools"] = list(tools)
        with understood():
            if not self.stream:
                return whole(await create(model=self.name, messages=messages, extra_body=more))
            async with await create(model=self.name, messages=messages, extra_body=more, stream=True) as chunks:
                return joined([chunk async for chunk in chunks])


class NoAnswer(OpenAIError):
    """Something answered that is no model with OpenAI's chat completions."""


@contextmanager
def understood() -> Iterator[None]:
    """Raise NoAnswer where an answer has not the form of a chat completion; the client does not look."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise NoAnswer("what came back is no chat completion") from error


def joined(chunks: Sequence[ChatCompletionChunk]) -> Answer:
    """Put an answer together that came in pieces; a web page comes as none."""
    if not chunks:
        raise LookupError("no pieces")
    answer = Answer()
    for chunk in chunks:
        answer.add(chunk)
    return answer.readable()


def whole(completion: ChatCompletion) -> Answer:
    """Take over an answer that came in one piece."""
    message = completion.choices[0].message
    answer = Answer(message.content or "")
    for index, call in enumerate(message.tool_calls or []):
        if call.type == "function":
            answer.calls[index] = ToolCall(call.id, call.function.name, call.function.arguments)
    return answer.readable()


def whole_characters(text: str) -> str:
    """Return a text in which surrogates are joined to a character, or replaced where they are alone."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def conversation(system: Path, user: str) -> list[ChatCompletionMessageParam]:
    """Begin a conversation, with the text of a file as its system prompt."""
    return [
        {"role": "system", "content": system.read_text(encoding="utf-8")},
        {"role": "user", "content": user},
    ]


def agent(main: Callable[P, int]) -> Callable[P, int]:
    """Let a program return 1 when its model cannot be asked, with a line that says why, and end well when interrupted."""

    @interruptible
    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except OpenAIError as error:
            print(told_why_not(error), file=sys.stderr)
            return 1

    return run


def told_why_not(error: OpenAIError) -> str:
    """Return what a person is told when the model cannot be asked, in one line."""
    reason = " ".join(str(error).split())
    reason = reason if len(reason) <= REASON_LIMIT else f"{reason[:REASON_LIMIT]}..."
    told = f"the model at {os.environ.get('OPENAI_BASE_URL') or 'its makers'} cannot be asked: {reason}"
    if isinstance(error, APIConnectionError):
        told += " OPENAI_BASE_URL says where a model is; without one, put `python -m examples.offline --` in front"
    return told


def at_least_one(text: str) -> int:
    """Read a number of steps."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which model is asked, and how."""
    parser.add_argument("--model", default="rotoscope-simulator", help="name of the model (default: %(default)s)")
    parser.add_argument("--no-stream", dest="stream", action="store_false", help="ask for answers in one piece")
    parser.add_argument("--seed", type=int, help="seed of what the model says, for servers that know one")


@asynccontextmanager
async def connected(options: argparse.Namespace) -> AsyncIterator[Ask]:
    """Yield what asks the model of the options at OPENAI_BASE_URL, with the key in OPENAI_API_KEY if there is one."""
    key = os.environ.get("OPENAI_API_KEY") or "none"  # a server of one's own asks for no key
    async with AsyncOpenAI(api_key=key) as client:
        yield Model(client, options.model, options.stream, options.seed).ask
