"""A server that answers at once, for benchmarks of clients: completions and chat, streamed, with usage.

It speaks like vLLM: `/v1/completions` takes token ids or text, `/v1/chat/completions` messages, `/tokenize` both. An
answer has one event a token, all of them written together; its tokens go round a list. The usage counts ids exactly.
Text is counted with the tokenizer in the folder of `--tokenizer`, in pieces that no token spans and each piece once;
without one four bytes count as a token. Nothing is cached, and the usage says so.

It serves on loopback, prints its port and takes lines: `arrivals` prints the monotonic seconds at which generations
were asked for since the last such line, as JSON; `bodies FILE` writes each request for a generation to that file from
then on, a line each: path, tab, body. It ends when its input does.

Run: python -m benchmarks.instant_server [--tokenizer FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import orjson

Count: TypeAlias = Callable[[str], int]

MODEL = "mock-model"
MESSAGE_TOKENS = 2
"""Of the template, around each message; one more opens the answer."""

_PIECE = 4096
"""Characters that are counted at once, at least."""
_BORDER = re.compile(r"(?<=\S) (?=[A-Za-z])")
"""Where the tokenizer of `offline_tokenizer.py` always begins a token: before the space of a word."""
_RING = 1024
"""Events of which answers are made."""
_FIRST_ID = 1000
_MODELS = {"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": 1 << 20, "meta": {"n_vocab": 32_000}}
_METRICS = b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class Texts:
    """Counts tokens of text."""

    def __init__(self, folder: Path | None) -> None:
        self._counts: dict[str, int] = {}
        self._tokenizer: Any = None
        if folder is not None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, which must not be asked for without a tokenizer."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def count(self, text: str) -> int:
        if self._tokenizer is None:
            return len(text.encode()) // 4
        return sum(map(self._count_once, pieces(text)))

    def _count_once(self, piece: str) -> int:
        if piece not in self._counts:
            self._counts[piece] = len(self.ids(piece))
        return self._counts[piece]


def pieces(text: str) -> Iterator[str]:
    """Cut a text where a token begins in any case, so that texts which begin alike have their first pieces alike."""
    start = 0
    while start < len(text):
        border = _BORDER.search(text, start + _PIECE)
        end = border.start() if border else len(text)
        yield text[start:end]
        start = end


def rendered(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return a conversation as the template writes it, in parts that no token spans."""
    parts = []
    for message in messages:
        parts += [f"<|{message['role']}|>", text_of(message), "<|end|>"]
    return [*parts, "<|assistant|>"]


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message, be it one or in parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def prompt_tokens(body: dict[str, Any], count: Count) -> int:
    """Count the tokens of a prompt: ids, text or messages."""
    if "messages" in body:
        messages = body["messages"]
        return sum(count(text_of(message)) for message in messages) + MESSAGE_TOKENS * len(messages) + 1
    prompt = body["prompt"]
    return count(prompt) if isinstance(prompt, str) else len(prompt)


class Wire:
    """The bytes of answers, made once."""

    def __init__(self, is_chat: bool, has_ids: bool) -> None:
        self._is_chat = is_chat
        self._ring = [self._event([self._choice(number, has_ids)]) for number in range(_RING)]
        last = {"index": 0, **self._content(""), "finish_reason": "length"}
        self._opening = self._event([{"index": 0, "delta": {"role": "assistant", "content": ""}}]) if is_chat else b""
        self._end = self._event([last])

    def answer(self, tokens: int, prompt_tokens: int, start: int) -> bytes:
        """Return an answer, head and all, whose tokens begin at a place of the ring."""
        start %= _RING
        ring = self._ring[start:] + self._ring[:start]
        events = ring * (tokens // _RING) + ring[: tokens % _RING]
        counts = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}
        usage = self._event([], {**counts, "prompt_tokens_details": {"cached_tokens": 0}})
        return b"".join(
            (_STREAM_HEAD, self._opening, *events, self._end, usage, _chunk(b"data: [DONE]\n\n"), _chunk(b""))
        )

    def _content(self, text: str) -> dict[str, object]:
        return {"delta": {"content": text}} if self._is_chat else {"text": text}

    def _choice(self, number: int, has_ids: bool) -> dict[str, object]:
        ids = {"token_ids": [_FIRST_ID + number]} if has_ids else {}
        return {"index": 0, **self._content(f" w{number}"), "logprobs": None, "finish_reason": None, **ids}

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object] | None = None) -> bytes:
        name, kind = ("chatcmpl-0", "chat.completion.chunk") if self._is_chat else ("cmpl-0", "text_completion")
        event = {"id": name, "object": kind, "created": 1_760_000_000, "model": MODEL, "choices": choices}
        if usage:
            event["usage"] = usage
        return _chunk(b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n")


wire_of = cache(Wire)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Served:
    """What all connections share."""

    def __init__(self, folder: Path | None) -> None:
        self.texts = Texts(folder)
        self.arrivals: list[float] = []
        self.bodies: BinaryIO | None = None

    def respond(self, method: bytes, path: bytes, raw: bytes) -> bytes:
        """Return the whole response to a request."""
        if path.endswith(b"/completions") and method == b"POST":
            return self._generate(path, raw)
        status, kind, content = self._plain(path, raw)
        head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(content))
        return head if method == b"HEAD" else head + content

    def _generate(self, path: bytes, raw: bytes) -> bytes:
        self.arrivals.append(time.monotonic())
        if self.bodies:
            self.bodies.write(b"%b\t%b\n" % (path, raw))
        body = orjson.loads(raw)
        wire = wire_of(path.endswith(b"chat/completions"), bool(body.get("return_token_ids")))
        tokens = body.get("max_completion_tokens") or body.get("max_tokens") or 16
        return wire.answer(tokens, prompt_tokens(body, self.texts.count), len(self.arrivals))

    def _plain(self, path: bytes, raw: bytes) -> tuple[bytes, bytes, bytes]:
        match path:
            case b"/v1/models":
                answer: object = {"object": "list", "data": [_MODELS]}
            case b"/tokenize":
                answer = self._tokenize(orjson.loads(raw))
            case b"/detokenize":
                answer = {"prompt": self.texts.decode(orjson.loads(raw)["tokens"])}
            case b"/health" | b"/ping":
                return b"200 OK", b"text/plain", b""
            case b"/metrics":
                return b"200 OK", b"text/plain; version=0.0.4", _METRICS
            case _:
                return b"404 Not Found", b"application/json", b'{"error":{"message":"no such path","type":"NotFound"}}'
        return b"200 OK", b"application/json", json.dumps(answer).encode()

    def _tokenize(self, body: dict[str, Any]) -> dict[str, object]:
        parts = rendered(body["messages"]) if "messages" in body else [body["prompt"]]
        ids = [token for part in parts for token in self.texts.ids(part)]
        return {"count": len(ids), "max_model_len": _MODELS["max_model_len"], "tokens": ids}


class Connection(asyncio.Protocol):
    """Read requests and write each answer in one piece."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._read = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._read[:end])
            _, found, length = head.lower().partition(b"\r\ncontent-length:")
            whole = end + 4 + (int(length.split(b"\r\n", 1)[0]) if found else 0)
            if len(self._read) < whole:
                return
            body = bytes(self._read[end + 4 : whole])
            del self._read[:whole]
            method, target = head.split(b" ", 2)[:2]
            self._transport.write(self._served.respond(method, target.partition(b"?")[0], body))


async def serve(folder: Path | None) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    served = Served(folder)
    server = await loop.create_server(lambda: Connection(served), "127.0.0.1", 0)
    with ExitStack() as files:

        def obey() -> None:
            lines = os.read(sys.stdin.fileno(), 4096).decode().splitlines()
            for line in lines:
                if line == "arrivals":
                    print(json.dumps(served.arrivals), flush=True)
                    served.arrivals.clear()
                else:
                    served.bodies = files.enter_context(open(line.removeprefix("bodies "), "wb", buffering=0))
            if not lines:
                ended.set()

        loop.add_reader(sys.stdin.fileno(), obey)
        print(server.sockets[0].getsockname()[1], flush=True)
        await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tokenizer", type=Path, help="folder of the tokenizer that counts text")
    asyncio.run(serve(parser.parse_args().tokenizer))


if __name__ == "__main__":
    main()
