"""Tell lengths and shared prefixes of the prompts in a file of bodies, as a server's tokenizer sees them.

Reads what `instant_server.py` wrote and prints one JSON object a request, in the order of arrival: the path, the output
tokens asked for, the prompt's tokens with the template of `offline_tokenizer.py` and without it, and how many leading
tokens it shares with whatever earlier prompt shares most. Needs tokenizers and numpy, which AIPerf's environment has.

Run: .venv-aiperf/bin/python -m benchmarks.sent_prompts BODIES TOKENIZER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.instant_server import MESSAGE_TOKENS, Texts, pieces, rendered

Ids: TypeAlias = NDArray[np.uint32]

_FIRST_LOOK = 64
"""Tokens compared first: most pairs part there."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that was sent."""

    ids: Ids
    template_tokens: int


class Tokenizer:
    """A tokenizer that sees each piece of text once."""

    def __init__(self, folder: Path) -> None:
        self._texts = Texts(folder)
        self._known: dict[str, Ids] = {}

    def ids(self, text: str) -> Ids:
        parts = [self._ids_once(piece) for piece in pieces(text)]
        return np.concatenate(parts) if parts else np.empty(0, np.uint32)

    def _ids_once(self, piece: str) -> Ids:
        if piece not in self._known:
            self._known[piece] = np.array(self._texts.ids(piece), np.uint32)
        return self._known[piece]

    def prompt(self, body: dict[str, Any]) -> Prompt:
        """Return the prompt of a body: ids, text or messages."""
        if "messages" in body:
            return self._conversation(body["messages"])
        prompt = body["prompt"]
        return Prompt(self.ids(prompt) if isinstance(prompt, str) else np.array(prompt, np.uint32), 0)

    def _conversation(self, messages: Sequence[dict[str, Any]]) -> Prompt:
        ids = np.concatenate([self.ids(part) for part in rendered(messages)])
        return Prompt(ids, MESSAGE_TOKENS * len(messages) + 1)


def told(bodies: Path, tokenizer: Tokenizer) -> Iterator[dict[str, object]]:
    """Yield what is told of each request."""
    earlier: list[Ids] = []
    for line in bodies.read_bytes().splitlines():
        path, _, raw = line.partition(b"\t")
        body = orjson.loads(raw)
        prompt = tokenizer.prompt(body)
        yield {
            "path": path.decode(),
            "output_tokens": body.get("max_completion_tokens") or body.get("max_tokens"),
            "prompt_tokens": len(prompt.ids),
            "text_tokens": len(prompt.ids) - prompt.template_tokens,
            "shared_tokens": max((shared_tokens(prompt.ids, other) for other in earlier), default=0),
            "repeats_a_role": _repeats_a_role(body.get("messages", [])),
        }
        earlier.append(prompt.ids)


def shared_tokens(one: Ids, other: Ids) -> int:
    """Return the length of the longest common prefix."""
    most = min(len(one), len(other))
    for length in (min(most, _FIRST_LOOK), most):
        differ = np.flatnonzero(one[:length] != other[:length])
        if len(differ):
            return int(differ[0])
    return most


def _repeats_a_role(messages: Sequence[dict[str, Any]]) -> bool:
    """Say whether two messages in a row are the user's or the assistant's, which strict templates refuse."""
    roles = [message["role"] for message in messages]
    return any(one == other != "system" for one, other in pairwise(roles))


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: sent_prompts.py BODIES TOKENIZER")
    for request in told(Path(sys.argv[1]), Tokenizer(Path(sys.argv[2]))):
        sys.stdout.buffer.write(orjson.dumps(request) + b"\n")


if __name__ == "__main__":
    main()
