"""Hypothesis strategies for what the trace model describes.

`traces()` draws one valid trace in normal form, `corpora()` several whose campaigns have the same shared prefixes. They
are small and dense in hard cases: nested shared prefixes, cache domains, growth, forks, rewinds and repeated prompts,
references into outputs, empty outputs, regions that nest, overlap or are never joined, tools that overlap, missing times.

Whatever is drawn is a number, mostly an index: hypothesis keeps strategies of numbers, and to make others anew for each
value takes longer than most tests that draw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st

from rotoscope.traces.model import (
    NO_PREFIX,
    Branch,
    Call,
    DropKvCache,
    Embedding,
    ForkEvidence,
    LinkEvidence,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedKind,
    SharedPrefix,
    SharedPrefixLink,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)

CAMPAIGNS = ("11111111", "22222222")
_EVIDENCE: tuple[ForkEvidence | None, ...] = (None, "client", "time")
_LINKS: list[tuple[LinkEvidence | None, int | None]] = [
    (link, rivals) for link in (None, "own", "prefix", "rewind") for rivals in (None, None, None, 1, 2, 3)
]
"""With numbers of rivals."""

Option = TypeVar("Option")


def chosen(draw: st.DrawFn, options: Sequence[Option]) -> Option:
    """Draw one of several; the first is the simplest."""
    return options[draw(st.integers(0, len(options) - 1))]


def chosen_or_none(draw: st.DrawFn, options: Sequence[Option]) -> Option | None:
    """Draw one of several or, half of the times, none; none where there is none."""
    index = draw(st.integers(0, max(2 * len(options) - 1, 0)))
    return options[index - len(options)] if index >= len(options) > 0 else None


@st.composite
def traces(draw: st.DrawFn, *, max_events: int = 14, campaign: str = CAMPAIGNS[0], timed: bool | None = None) -> Trace:
    """Draw a trace; `timed` says whether all calls and tools have times (None: some)."""
    return _trace_of(draw, _shared_prefixes(draw), campaign=campaign, max_events=max_events, timed=timed)


@st.composite
def corpora(draw: st.DrawFn, *, max_traces: int = 3, max_events: int = 8) -> list[Trace]:
    """Draw traces of one or two campaigns; files of a campaign may know its shared prefixes up to different lengths."""
    by_campaign = {campaign: _shared_prefixes(draw) for campaign in CAMPAIGNS}
    drawn = []
    for _ in range(draw(st.integers(1, max_traces))):
        campaign = chosen(draw, CAMPAIGNS)
        known = _shortened(draw, by_campaign[campaign])
        drawn.append(_trace_of(draw, known, campaign=campaign, max_events=max_events, timed=None))
    return drawn


def grown_by(trace: Trace, factor: int) -> Trace:
    """Return a trace with so many times the tokens everywhere."""

    def prefix(link: Prefix) -> Prefix:
        return replace(link, tokens=factor * link.tokens)

    def shared(link: SharedPrefixLink | None) -> SharedPrefixLink | None:
        return None if link is None else replace(link, tokens=factor * link.tokens)

    events = [
        replace(
            event,
            prompt_tokens=factor * event.prompt_tokens,
            completion_tokens=factor * event.completion_tokens,
            reasoning_tokens=factor * event.reasoning_tokens,
            prefix=prefix(event.prefix),
        )
        if isinstance(event, Call)
        else event
        for event in trace.events
    ]
    prefixes = [replace(s, tokens=factor * s.tokens, prefix=shared(s.prefix)) for s in trace.shared_prefixes]
    return replace(trace, shared_prefixes=tuple(prefixes), events=tuple(events))


@st.composite
def shared_prefixes(draw: st.DrawFn) -> tuple[SharedPrefix, ...]:
    """Draw up to four shared prefixes of both kinds, some of which begin like others."""
    return _shared_prefixes(draw)


def _shared_prefixes(draw: st.DrawFn) -> tuple[SharedPrefix, ...]:
    drawn: list[SharedPrefix] = []
    for number in range(draw(st.integers(0, 4))):
        kind: SharedKind = chosen(draw, ("system", "group"))
        parents = [p for p in drawn if p.tokens > _leaves_at(p)]
        parent = chosen_or_none(draw, parents)
        link = None
        if parent is not None:
            link = SharedPrefixLink(parent.id, draw(st.integers(_leaves_at(parent) + 1, parent.tokens)))
        tokens = (link.tokens if link else 0) + draw(st.integers(0 if link else 1, 3))
        drawn.append(SharedPrefix(f"s{number}", kind, tokens, link))
    return tuple(drawn)


def _shortened(draw: st.DrawFn, shared: tuple[SharedPrefix, ...]) -> tuple[SharedPrefix, ...]:
    """Draw what a file that saw less of them says: shorter where none of the others needs more."""
    needed = {p.id: max(_leaves_at(p), 1) for p in shared}
    for prefix in shared:
        if prefix.prefix is not None:
            needed[prefix.prefix.of] = max(needed[prefix.prefix.of], prefix.prefix.tokens)
    return tuple(replace(p, tokens=draw(st.integers(needed[p.id], p.tokens))) for p in shared)


def _leaves_at(shared: SharedPrefix) -> int:
    return shared.prefix.tokens if shared.prefix else 0


def _trace_of(
    draw: st.DrawFn, shared: tuple[SharedPrefix, ...], *, campaign: str, max_events: int, timed: bool | None
) -> Trace:
    agent = _Agent(draw, shared, timed)
    for _ in range(draw(st.integers(0, max_events))):
        agent.act()
    return Trace(
        trace_id="00000000",
        campaign=campaign,
        token_source="usage",
        shared_prefixes=shared,
        events=tuple(agent.events),
    )


@dataclass
class _Agent:
    """Draws one event after another, each on one of the branches that are still open."""

    draw: st.DrawFn
    shared: tuple[SharedPrefix, ...]
    timed: bool | None
    events: list[TraceEvent] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    branches: list[Branch | None] = field(default_factory=lambda: [None])
    open_regions: dict[int, Branch | None] = field(default_factory=dict)
    regions: int = 0
    tools: int = 0
    now_ms: float = 0.0

    def act(self) -> None:
        """Add an event; calls are the most frequent."""
        actions = [self.call] * 5 + [self.tool] * 2 + [self.wait, self.fork, self.join, self.bystander]
        branch = chosen(self.draw, self.branches) if len(self.branches) > 1 else self.branches[0]
        chosen(self.draw, actions)(branch)
        self.now_ms += chosen(self.draw, (0, 0, 5, 20))

    def call(self, branch: Branch | None) -> None:
        domain = chosen(self.draw, (0, 0, 0, 1))
        prefix = self._prefix(domain)
        output = self.draw(st.integers(0, 4))
        at_ms, duration_ms = self._times()
        link, rivals = chosen(self.draw, _LINKS)
        call = Call(
            call=len(self.calls),
            domain=domain,
            branch=branch,
            conversation_id=0,
            message_index=0,
            prompt_tokens=max(prefix.tokens + self.draw(st.integers(0, 4)), 1),
            completion_tokens=output,
            reasoning_tokens=self.draw(st.integers(0, output)) if output else 0,
            prefix=prefix,
            at_ms=at_ms,
            duration_ms=duration_ms,
            link=link,
            rivals=rivals,
        )
        self.calls.append(call)
        self.events.append(call)

    def tool(self, branch: Branch | None) -> None:
        asking = chosen_or_none(self.draw, self.calls)
        at_ms, duration_ms = self._times()
        self.events.append(
            ToolCall(
                branch=branch,
                tool_call_id=f"t{self.tools}",
                tool_name="tool0",
                duration_ms=duration_ms or 0.0,
                call=asking.call if asking else None,
                at_ms=at_ms,
            )
        )
        self.tools += 1

    def wait(self, branch: Branch | None) -> None:
        duration_ms = chosen(self.draw, (0.0, 10.0))
        self.events.append(Wait(branch=branch, kind="think", duration_ms=duration_ms))

    def fork(self, branch: Branch | None) -> None:
        width = self.draw(st.integers(1, 3))
        evidence = chosen(self.draw, _EVIDENCE)
        fork = ParallelStart(branch=branch, region=self.regions, num_branches=width, evidence=evidence)
        self.events.append(fork)
        self.open_regions[self.regions] = branch
        self.branches += [(self.regions, child) for child in range(width)]
        self.regions += 1

    def join(self, branch: Branch | None) -> None:
        """Join an open region of the branch; what happens below it is over then."""
        mine = [region for region, parent in self.open_regions.items() if parent == branch]
        if mine:
            region = chosen(self.draw, mine)
            self.events.append(ParallelEnd(branch=branch, region=region))
            self._close(region)

    def bystander(self, branch: Branch | None) -> None:
        """Add an event that takes no time in a replay."""
        bystanders: list[TraceEvent] = [
            DropKvCache(branch=branch),
            Message(branch=branch, conversation_id=0, role="user", message_index=0, tokens=3),
            Embedding(branch=branch, prompt_tokens=3, at_ms=0.0, duration_ms=70.0),
        ]
        self.events.append(chosen(self.draw, bystanders))

    def _close(self, region: int) -> None:
        del self.open_regions[region]
        children = [b for b in self.branches if b is not None and b[0] == region]
        self.branches = [b for b in self.branches if b not in children]
        for inner in [r for r, parent in self.open_regions.items() if parent in children]:
            self._close(inner)

    def _times(self) -> tuple[float | None, float | None]:
        known = self.timed if self.timed is not None else self.draw(st.integers(0, 3)) > 0
        return (self.now_ms, chosen(self.draw, (0.0, 5.0, 30.0, 80.0))) if known else (None, None)

    def _prefix(self, domain: int) -> Prefix:
        """Begin like nothing, or like the owner of the last token that is shared (normal form)."""
        origins: dict[int | str, tuple[int, list[int]]] = {}
        for shared in self.shared:
            origins[shared.id] = (_leaves_at(shared), [shared.tokens])
        for call in self.calls:
            if call.domain == domain:
                origins[call.call] = (call.prefix.tokens, [call.prompt_tokens, call.stream_tokens])
        origins = {of: (least, ends) for of, (least, ends) in origins.items() if ends[-1] > least}
        if not origins or self.draw(st.integers(0, 5)) == 0:
            return NO_PREFIX
        of = chosen(self.draw, list(origins))
        least, ends = origins[of]
        usual = [end for end in ends if end > least]
        tokens = chosen(self.draw, usual) if self.draw(st.booleans()) else self.draw(st.integers(least + 1, ends[-1]))
        return Prefix(of, tokens, "ids")
