"""Worlds of real token streams, from which traces and truths are derived independently of the code under test."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from strategies import chosen

from rotoscope.traces import Call, Prefix, SharedPrefix, SharedPrefixLink, Trace

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class WorldCall:
    prompt: Tokens
    output: Tokens
    domain: int = 0

    @property
    def stream(self) -> Tokens:
        return self.prompt + self.output


@dataclass(frozen=True)
class World:
    """Shared prefixes (parents before children) and calls in order."""

    shared: tuple[Tokens, ...]
    calls: tuple[WorldCall, ...]


def common(a: Tokens, b: Tokens) -> int:
    """Count the leading tokens that two streams share."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


@st.composite
def worlds(draw: st.DrawFn, domains: int = 2, chance: bool = False) -> World:
    """Draw streams that often extend, cut, fork and repeat earlier ones, over so few tokens that prompts match by chance.

    With `chance` outputs do so too, as those of a server may; without it they are unlike all else, as R4 wants.
    """
    streams: list[tuple[Tokens, int | None]] = []

    def beginning(domain: int) -> Tokens:
        options = [stream for stream, of in streams if of in (None, domain)]
        if not options or draw(st.integers(0, 4)) == 0:
            return ()
        stream = chosen(draw, options)
        return stream if draw(st.booleans()) else stream[: draw(st.integers(0, len(stream)))]

    def fresh(least: int) -> Tokens:
        return tuple(draw(st.integers(0, 2)) for _ in range(draw(st.integers(least, 5))))

    shared: list[Tokens] = []
    for _ in range(draw(st.integers(0, 3))):
        start = chosen(draw, [(), *shared])
        stream = start[: draw(st.integers(0, len(start)))] + fresh(1)
        shared.append(stream)
        streams.append((stream, None))
    calls: list[WorldCall] = []
    for _ in range(draw(st.integers(0, 8))):
        domain = draw(st.integers(0, domains - 1))
        start = beginning(domain)
        output = fresh(0) if chance else tuple(100 * len(streams) + 10 + i for i in range(draw(st.integers(0, 5))))
        call = WorldCall(start + fresh(0 if start else 1), output, domain)
        calls.append(call)
        streams.append((call.stream, domain))
    return World(tuple(shared), tuple(calls))


def trace_of(world: World) -> Trace:
    """Describe a world as a trace by comparing tokens, in the normal form of the trace model."""
    shared = []
    for index, stream in enumerate(world.shared):
        parent, tokens = _owner(stream, [(f"s{i}", world.shared[i]) for i in range(index)])
        link = SharedPrefixLink(str(parent), tokens) if tokens else None
        shared.append(SharedPrefix(f"s{index}", "system", len(stream), link))
    events = []
    for number, call in enumerate(world.calls):
        donors: list[tuple[int | str, Tokens]] = [(f"s{i}", stream) for i, stream in enumerate(world.shared)]
        donors += [(i, x.stream) for i, x in enumerate(world.calls[:number]) if x.domain == call.domain]
        of, tokens = _owner(call.prompt, donors)
        events.append(
            Call(
                call=number,
                domain=call.domain,
                conversation_id=0,
                message_index=0,
                prompt_tokens=len(call.prompt),
                completion_tokens=len(call.output),
                prefix=Prefix(of, tokens, "ids"),
            )
        )
    return Trace(
        trace_id="00000000",
        campaign="11111111",
        token_source="usage",
        shared_prefixes=tuple(shared),
        events=tuple(events),
    )


def _owner(prompt: Tokens, donors: list[tuple[int | str, Tokens]]) -> tuple[int | str | None, int]:
    best: tuple[int | str | None, int] = (None, 0)
    for node, stream in donors:
        tokens = common(prompt, stream)
        if tokens > best[1]:
            best = (node, tokens)
    return best
