"""Claim: reading 110,000 events of one token each costs less than 0.3 s of CPU in every API, however they arrive.

The named alternative parses each event with orjson, as a client does that looks at everything, and keeps nothing. Both
are given the same bytes in the same pieces: an event at a time, as a server sends them that is read at once, and 16 KiB
at a time, as a reader gets them that was busy. Network and HTTP are not in it (replay_client.py has them).

Run: python benchmarks/answer_events.py [ROUNDS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import orjson

from rotoscope.replayer.backends.answer import Answer
from rotoscope.replayer.backends.apis import APIS
from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.stream import EventReader

EVENTS = 110_000
TOKENS = 1000
"""Of one answer."""
MOST_S = 0.3
ROUNDS = 5
PIECE_BYTES = 16 * 1024

_HEAD = b'{"id":"chatcmpl-5f0c2e0c8b9a4e0f8a7d6c5b4a39281f","object":"chat.completion.chunk","created":1760000000,"model":"m",'
_ITEM = b'"item_id":"msg_5f0c2e0c8b9a4e0f8a7d6c5b4a39281f","output_index":0,"content_index":0,"logprobs":[],'
_META = b'"meta_info":{"id":"5f0c2e0c8b9a4e0f8a7d6c5b4a39281f","prompt_tokens":1000,"completion_tokens":%d,"cached_tokens":0,'
_USAGE = b'"usage":{"prompt_tokens":1000,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":512}}'

TOKEN_EVENTS: dict[str, Callable[[int], bytes]] = {
    "completions": lambda n: (
        _HEAD + b'"choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"token_ids":[%d]}]}' % n
    ),
    "generate": lambda n: b'{"text":" word","output_ids":[%d],' % n + _META % n + b'"finish_reason":null}}',
    "chat": lambda n: (
        _HEAD + b'"choices":[{"index":0,"delta":{"content":" w%d"},"logprobs":null,"finish_reason":null}]}' % n
    ),
    "responses": lambda n: (
        b'{"type":"response.output_text.delta",' + _ITEM + b'"delta":" w%d","sequence_number":%d}' % (n, n)
    ),
    "messages": lambda n: b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" w%d"}}' % n,
}
LAST_EVENTS: dict[str, list[bytes]] = {
    "completions": [_HEAD + b'"choices":[],' + _USAGE % TOKENS + b"}", b"[DONE]"],
    "generate": [
        b'{"text":"","output_ids":[],' + _META % TOKENS + b'"finish_reason":{"type":"length","length":1000}}}',
        b"[DONE]",
    ],
    "chat": [
        _HEAD + b'"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}',
        _HEAD + b'"choices":[],' + _USAGE % TOKENS + b"}",
        b"[DONE]",
    ],
    "responses": [
        b'{"type":"response.completed","response":{"usage":{"input_tokens":1000,"output_tokens":%d}}}' % TOKENS
    ],
    "messages": [
        b'{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":%d}}' % TOKENS,
        b'{"type":"message_stop"}',
    ],
}


def framed(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def one_answer(api: str, *, by_event: bool) -> list[bytes]:
    """Return an answer of TOKENS tokens in the pieces in which it arrives."""
    payloads = [TOKEN_EVENTS[api](number) for number in range(1, TOKENS + 1)] + LAST_EVENTS[api]
    pieces = [framed(payload) for payload in payloads]
    if by_event:
        return pieces
    whole = b"".join(pieces)
    return [whole[start : start + PIECE_BYTES] for start in range(0, len(whole), PIECE_BYTES)]


def read(api: str, pieces: list[bytes]) -> None:
    """Read one answer as the backend does."""
    exchange = Exchange(prompt=b"[]", output_tokens=TOKENS)
    answer = Answer(exchange, APIS[api].reading(ENGINES["any"]))
    for piece in pieces:
        answer.take(piece, 0.0)
    brought = exchange.output_ids if APIS[api].prompts == "ids" else exchange.output_text
    if not answer.is_whole or exchange.completion_tokens != TOKENS or len(brought) != TOKENS:
        raise SystemExit(f"{api}: the answer was not read as it was sent")


def parse(api: str, pieces: list[bytes]) -> None:
    """Cut the same bytes into events and parse each."""
    events = EventReader()
    for piece in pieces:
        for payload in events.feed(piece):
            if payload != b"[DONE]":
                orjson.loads(payload)


def cpu_s(work: Callable[[str, list[bytes]], None], api: str, pieces: list[bytes]) -> float:
    """Return the processor time for EVENTS tokens."""
    started_s = time.process_time()
    for _ in range(EVENTS // TOKENS):
        work(api, pieces)
    return time.process_time() - started_s


def measure(api: str, rounds: int, *, by_event: bool) -> float:
    """Print and return the least of several times, for one API and one way of arriving, as what else runs only adds."""
    pieces = one_answer(api, by_event=by_event)
    times = [(cpu_s(read, api, pieces), cpu_s(parse, api, pieces)) for _ in range(rounds)]
    ours, parsed = min(pair[0] for pair in times), min(pair[1] for pair in times)
    way = "event by event" if by_event else "16 KiB at once"
    print(f"{api:12} {way}: {ours:.3f} s for {EVENTS:,} events, parsing alone {parsed:.3f} s", flush=True)
    return ours


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    slowest = max(measure(api, rounds, by_event=by_event) for api in APIS for by_event in (True, False))
    print(f"slowest: {slowest:.3f} s (limit {MOST_S} s)")
    return 0 if slowest <= MOST_S else 1


if __name__ == "__main__":
    sys.exit(main())
