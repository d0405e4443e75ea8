"""Claim: counting texts beside a recording costs the gateway's process at most 1.3 times the CPU a request.

Two gateways take turns in front of one upstream, which tells usage; one of them has its texts counted. The conversation
grows by an answer and a tool's output of about 8 KB a turn. What the process that counts uses stands beside it: to load
its tokenizer, and a message, once each. Texts that tokenizers dislike are counted as the process counts them.

Run: python -m benchmarks.counting [ROUNDS]
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from benchmarks.claims import holds, run
from benchmarks.gateway import WORD, Client, Proxy, Upstream, listening, process
from rotoscope.recorder.counting import count_within_limits
from rotoscope.recorder.token_counters import EncodingCounter, Tokenizer
from rotoscope.traces.offline_encodings import ENCODINGS

MOST_PER_REQUEST = 1.3
ROUNDS = 7
TURNS = 40
MESSAGE_BYTES = 8192
DISLIKED = {
    "8 KB of code": "",
    "100 KB of one letter": "a" * 100_000,
    "100 KB of spaces": " " * 100_000,
    "100 KB of base64": "QWxhZGRpbjpvcGVuIHNlc2FtZQ+/" * 3572,
    "1 MB of one letter": "a" * 1_000_000,
}


@asynccontextmanager
async def gateway_that_does_not_count(upstream: str, folder: Path) -> AsyncIterator[str]:
    """Run the gateway with a recorder; give its origin."""
    async with _gateway(upstream, folder, None) as origin:
        yield origin


@asynccontextmanager
async def gateway_that_counts(upstream: str, folder: Path) -> AsyncIterator[str]:
    """The same, and let texts be counted."""
    async with _gateway(upstream, folder, Tokenizer(ENCODINGS[0])) as origin:
        yield origin


@asynccontextmanager
async def _gateway(upstream: str, folder: Path, tokenizer: Tokenizer | None) -> AsyncIterator[str]:
    from rotoscope.proxy.standing import Standing, standing
    from rotoscope.proxy.upstream import upstream_given
    from rotoscope.recorder.campaigns import Campaign
    from rotoscope.recorder.recorded_run import Finished
    from rotoscope.traces.model import Message

    ended: list[Finished] = []
    how = Standing(upstream_given(upstream), folder, Campaign(), tokenizer=tokenizer)
    async with standing(how, finished=lambda finished, _: ended.append(finished), notice=print) as stood:
        yield stood.gateway.origin
    for one in ended:
        if one.trace is None or one.run.recorder.trouble:
            raise SystemExit("the gateway did not record what it passed, so its cost says nothing")
        messages = [event for event in one.trace.events if isinstance(event, Message)]
        is_counted = {message.tokens_source for message in messages} == {f"tokenizer:{ENCODINGS[0]}"}
        if is_counted != (tokenizer is not None):
            raise SystemExit("the gateway did not count what it was to count, so its cost says nothing")


def code(seed: int) -> str:
    """Return a message of text that differs from all others at every line."""
    lines = (f"    value_{seed}_{n} = transform(index={n * seed % 977}, name='{n:x}')\n" for n in itertools.count())
    text = ""
    while len(text) < MESSAGE_BYTES:
        text += next(lines)
    return text[:MESSAGE_BYTES]


def conversation(seed: int) -> Iterator[bytes]:
    """Yield the bodies of a conversation that grows by an answer and a tool's output a turn."""
    messages = [{"role": "system", "content": f"You are agent {seed}."}, {"role": "user", "content": code(seed)}]
    for turn in itertools.count():
        yield json.dumps({"model": "model", "messages": messages}).encode()
        messages += [{"role": "assistant", "content": WORD * 4}, {"role": "user", "content": code(seed * 1000 + turn)}]


async def request_cost_s(client: Client, proxy: Proxy, seed: int) -> float:
    """Return the gateway's own CPU seconds a request of a growing conversation, its first one left out."""
    bodies = conversation(seed)
    await client.call(proxy, next(bodies), events=0)
    before = proxy.cpu_s()
    for body in itertools.islice(bodies, TURNS):
        await client.call(proxy, body, events=0)
    return (proxy.cpu_s() - before) / TURNS


async def measure(rounds: int, folder: Path) -> bool:
    """Measure both gateways in turn; print the costs and their ratio; return whether the claim holds."""
    upstream = Upstream()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", upstream.answer)
    costs: dict[str, list[float]] = defaultdict(list)
    async with listening(app) as origin, aiohttp.ClientSession() as session:
        client, seeds = Client(session, upstream), itertools.count(1)
        with (
            process(gateway_that_does_not_count, origin, folder / "off") as off,
            process(gateway_that_counts, origin, folder / "on") as on,
        ):
            for _ in range(rounds + 1):
                costs["off"].append(await request_cost_s(client, off, next(seeds)))
                costs["on"].append(await request_cost_s(client, on, next(seeds)))
    off_s, on_s = (statistics.median(costs[name][1:]) for name in ("off", "on"))  # the first round warms up
    what = f"the gateway's CPU a request with one new message of {MESSAGE_BYTES // 1024} KB"
    return holds(what, {"not counting": off_s, "counting": on_s}, MOST_PER_REQUEST)


def count_disliked() -> None:
    """Print what the process that counts uses."""
    for name in ENCODINGS:
        before = time.process_time()
        counter = EncodingCounter(name)
        print(f"{name}: loading {time.process_time() - before:.2f} CPU s")
        for what, text in DISLIKED.items():
            texts = [text] if text else [code(seed) for seed in range(20)]
            before = time.process_time()
            for one in texts:
                count_within_limits(counter, one)
            print(f"{name}: {what} {(time.process_time() - before) / len(texts) * 1e3:.2f} CPU ms")


if __name__ == "__main__":
    count_disliked()
    run(measure, ROUNDS)
