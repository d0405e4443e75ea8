"""What the simulated model says: a seam with one method, and random words as the default behind it.

A scripted model is any function from `ModelRequest` to `Answer`, or any object with such an `answer` method:

    def answer(request: ModelRequest) -> Answer:
        if request.messages[-1].role == "user":
            return Answer(text="I look first.", tool_calls=(ToolCall("list_files", '{"path": "."}'),))
        return Answer(text="Done.")

    rotoscope serve --script my_module:answer
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from rotoscope.replayer.simulator.tokenizer import TokenIds, word_ids
from rotoscope.traces.errors import UnusableInput

SHORTEST_ANSWER_TOKENS = 16
LONGEST_ANSWER_TOKENS = 256


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, by a model or in a conversation's history."""

    name: str
    arguments: str
    """JSON text, kept to the byte: history must give the tokens that were generated."""
    id: str = ""
    """Set in history only; the server names the calls of an answer."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, its content as one text."""

    role: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ModelRequest:
    """What a model may look at before it answers."""

    prompt_ids: TokenIds
    messages: tuple[Message, ...] = ()
    """Empty for text and token-id completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """As the client sent them, in OpenAI's form."""
    seed: int = 0
    """The request's seed, or the server's where it has none."""
    choice: int = 0
    """Rank among the answers asked of one prompt."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says before its end-of-turn token; the server cuts or extends it to the limits of the request."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    """Said instead of `text` where that is empty."""
    reasoning: str = ""
    """Thinking: generated and counted before the text, dropped from history by the chat template."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    """What to report when the answer ends by itself; empty means `tool_calls` or `stop`."""


class Model(Protocol):
    """The seam: from a request to an answer, deterministic if the replays of it shall be."""

    def answer(self, request: ModelRequest) -> Answer:
        """Return what the model says to this request."""
        ...


class RandomModel:
    """Answer with random words; the same prompt, seed and choice give the same words."""

    def answer(self, request: ModelRequest) -> Answer:
        """Return between 16 and 256 words of one token each."""
        longest = random_ids(request, LONGEST_ANSWER_TOKENS)
        spread = LONGEST_ANSWER_TOKENS - SHORTEST_ANSWER_TOKENS + 1
        return Answer(token_ids=tuple(longest[: SHORTEST_ANSWER_TOKENS + int(longest[0]) % spread].tolist()))


class ScriptedModel:
    """Answer by a plain function."""

    def __init__(self, function: Callable[[ModelRequest], Answer]) -> None:
        self._function = function

    def answer(self, request: ModelRequest) -> Answer:
        """Return what the function says."""
        return self._function(request)


def random_ids(request: ModelRequest, count: int) -> TokenIds:
    """Return `count` word ids drawn from the seed, the prompt and the choice; a longer draw begins with a shorter one."""
    digest = hashlib.sha256(b"rotoscope-simulator %d %d\0" % (request.seed, request.choice))
    digest.update(np.ascontiguousarray(request.prompt_ids, np.uint32).tobytes())
    words = word_ids()
    draws = np.random.Philox(key=int.from_bytes(digest.digest()[:16], "little")).random_raw(count)
    return (draws % len(words) + words.start).astype(np.uint32)


def load_model(script: str) -> Model:
    """Return the model that MODULE:NAME points at: a function, or an object with an `answer` method."""
    module_name, _, name = script.partition(":")
    if not module_name or not name or module_name.startswith("."):
        raise UnusableInput(f"script {script!r} is not of the form MODULE:NAME")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script does not look into the working directory by itself
        sys.path.insert(0, here)
    try:
        target = getattr(import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise UnusableInput(f"script {script!r} cannot be loaded: {error}") from error
    if isinstance(target, type):
        target = target()
    if hasattr(target, "answer"):
        return cast(Model, target)
    if callable(target):
        return ScriptedModel(target)
    raise UnusableInput(f"script {script!r} is neither a function nor an object with an answer method")
