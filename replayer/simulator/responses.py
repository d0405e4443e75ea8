"""What the simulator answers: OpenAI's JSON for completions and chat, whole or in pieces, with vLLM's token ids.

The answers of other APIs have modules of their own; all are made from the same `Reply`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import orjson

from rotoscope.replayer.simulator.blocks import Block
from rotoscope.replayer.simulator.output import Output, Piece
from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.replayer.simulator.tokenizer import TokenIds

FINGERPRINT = "rotoscope-simulator"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Choice:
    """One output of a request on its way."""

    index: int
    output: Output
    generation: Generation
    tool_ids: tuple[str, ...]
    blocks: tuple[Block, ...]
    """Of the output."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One request's answer, in whichever form it is sent."""

    model: str
    choices: tuple[Choice, ...]
    """Prompt after prompt."""
    choices_per_prompt: int
    prompt_tokens: int
    """Of all prompts; several outputs of one prompt count it once."""
    with_ids: bool
    prompt_ids: TokenIds | None = None
    """Sent back with the output ids where the client cannot know them."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))
    numbers: Iterator[int] = field(default_factory=count)
    """Of its events, where the API numbers them."""

    @property
    def generations(self) -> tuple[Generation, ...]:
        """Return what the engine generates for this request."""
        return tuple(choice.generation for choice in self.choices)

    def usage(self) -> dict[str, Any]:
        """Return the token counts of the whole request, zeros included."""
        generated = sum(choice.generation.generated for choice in self.choices)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": self.prompt_tokens + generated,
            "prompt_tokens_details": {"cached_tokens": self._cached_tokens()},
            "completion_tokens_details": {
                "reasoning_tokens": sum(choice.output.reasoning_tokens for choice in self.choices)
            },
        }

    def _cached_tokens(self) -> int:
        """Return the cached tokens of each prompt's first output: the others would count the same prompt again."""
        return sum(choice.generation.cached_tokens for choice in self.choices[:: self.choices_per_prompt])


def completion(reply: Reply) -> dict[str, Any]:
    """Return the body of a whole text completion."""
    choices = [_completion_choice(reply, choice, choice.output.pieces, ended=True) for choice in reply.choices]
    return {**_envelope(reply, "cmpl", "text_completion", choices), "usage": reply.usage()}


def chat_completion(reply: Reply) -> dict[str, Any]:
    """Return the body of a whole chat completion."""
    choices = [_chat_choice(reply, choice) for choice in reply.choices]
    body = {**_envelope(reply, "chatcmpl", "chat.completion", choices), "usage": reply.usage()}
    return _with_prompt_ids(reply, body)


def completion_chunks(reply: Reply, choice: Choice, first: int, end: int) -> list[bytes]:
    """Return the events for a run of new tokens of a text completion; the last one says how it ended."""
    pieces = choice.output.pieces
    body = _completion_choice(reply, choice, pieces[first:end], ended=end == len(pieces))
    return [event({**_envelope(reply, "cmpl", "text_completion", [body]), "usage": None})]


def chat_chunks(reply: Reply, choice: Choice, first: int, end: int) -> list[bytes]:
    """Return the events for a run of new tokens of a chat: the role with the first, the reason after the last."""
    pieces = choice.output.pieces
    events = []
    if first == 0:
        opening = _chat_chunk(reply, choice, {"role": "assistant", "content": ""}, [])
        events.append(event(_with_prompt_ids(reply, opening)))
    for piece in pieces[first:end]:
        delta = _delta(choice, piece)
        if delta or reply.with_ids:
            events.append(event(_chat_chunk(reply, choice, delta, [piece])))
    if end == len(pieces):
        events.append(event(_chat_chunk(reply, choice, {}, [], choice.output.finish_reason)))
    return events


def completion_ending(reply: Reply, *, include_usage: bool) -> bytes:
    """Return the last events of a text completion."""
    usage = event({**_envelope(reply, "cmpl", "text_completion", []), "usage": reply.usage()})
    return usage + DONE if include_usage else DONE


def chat_ending(reply: Reply, *, include_usage: bool) -> bytes:
    """Return the last events of a chat."""
    usage = event({**_envelope(reply, "chatcmpl", "chat.completion.chunk", []), "usage": reply.usage()})
    return usage + DONE if include_usage else DONE


def event(body: dict[str, Any]) -> bytes:
    """Return a body as one server-sent event."""
    return b"data: " + orjson.dumps(body) + b"\n\n"


def named_event(body: dict[str, Any]) -> bytes:
    """Return a body as one server-sent event that has its type as its name."""
    return b"event: %b\n" % body["type"].encode() + event(body)


class Ending(Protocol):
    """Writes the events behind the last token."""

    def __call__(self, reply: Reply, *, include_usage: bool) -> bytes:
        """Return them; usage is left out where the client did not ask and the API lets it choose."""
        ...


@dataclass(frozen=True, slots=True)
class Form:
    """How the answer of one API is written."""

    whole: Callable[[Reply], dict[str, Any]]
    chunks: Callable[[Reply, Choice, int, int], list[bytes]]
    """Events for the tokens from a first one to before an end."""
    ending: Ending


TEXT_FORM = Form(completion, completion_chunks, completion_ending)
CHAT_FORM = Form(chat_completion, chat_chunks, chat_ending)


def _envelope(reply: Reply, prefix: str, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"{prefix}-{reply.id}",
        "object": kind,
        "created": reply.created,
        "model": reply.model,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
    }


def _completion_choice(reply: Reply, choice: Choice, pieces: Sequence[Piece], *, ended: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "index": choice.index,
        "text": "".join(piece.text for piece in pieces),
        "logprobs": None,
        "finish_reason": _completion_finish(choice.output) if ended else None,
    }
    if reply.with_ids:
        body["token_ids"] = [piece.token for piece in pieces]
    return body


def _completion_finish(output: Output) -> str:
    """Return the reason without tools: a text completion knows none."""
    return "stop" if output.finish_reason == "tool_calls" else output.finish_reason


def _chat_choice(reply: Reply, choice: Choice) -> dict[str, Any]:
    output = choice.output
    message: dict[str, Any] = {"role": "assistant", "content": output.text("text"), "refusal": None}
    if output.reasoning_tokens:
        message["reasoning_content"] = output.text("reasoning")
    if output.tools:
        message["content"] = message["content"] or None
        message["tool_calls"] = [_whole_tool_call(choice, tool) for tool in range(output.tools)]
    body: dict[str, Any] = {
        "index": choice.index,
        "message": message,
        "logprobs": None,
        "finish_reason": output.finish_reason,
    }
    if reply.with_ids:
        body["token_ids"] = [piece.token for piece in output.pieces]
    return body


def _chat_chunk(
    reply: Reply, choice: Choice, delta: dict[str, Any], pieces: Sequence[Piece], finish_reason: str | None = None
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "index": choice.index,
        "delta": delta,
        "logprobs": None,
        "finish_reason": finish_reason,
    }
    if reply.with_ids:
        body["token_ids"] = [piece.token for piece in pieces]
    return {**_envelope(reply, "chatcmpl", "chat.completion.chunk", [body]), "usage": None}


def _delta(choice: Choice, piece: Piece) -> dict[str, Any]:
    """Return what one token adds to the message; a tool call appears with its name as soon as that is complete."""
    if piece.channel == "tool_start":
        return {"tool_calls": [{"index": piece.tool, **_whole_tool_call(choice, piece.tool, arguments="")}]}
    if not piece.text:
        return {}
    if piece.channel == "tool_arguments":
        return {"tool_calls": [{"index": piece.tool, "function": {"arguments": piece.text}}]}
    keys = {"text": "content", "reasoning": "reasoning_content"}
    return {keys[piece.channel]: piece.text} if piece.channel in keys else {}


def _whole_tool_call(choice: Choice, tool: int, arguments: str | None = None) -> dict[str, Any]:
    if arguments is None:
        arguments = choice.output.text("tool_arguments", tool=tool)
    name = choice.output.text("tool_name", tool=tool)
    return {"id": choice.tool_ids[tool], "type": "function", "function": {"name": name, "arguments": arguments}}


def _with_prompt_ids(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    if reply.with_ids and reply.prompt_ids is not None:
        body["prompt_token_ids"] = reply.prompt_ids.tolist()
    return body
