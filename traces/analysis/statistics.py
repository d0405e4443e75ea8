"""What a trace is like: requests, lengths, tools, parallelism, and how much of its prompts could come from a cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rotoscope.traces.analysis.optimum import Assumptions, Level, planned_hits_together
from rotoscope.traces.corpus import Member
from rotoscope.traces.forest import Node
from rotoscope.traces.masked import is_volatile, masked
from rotoscope.traces.model import Branch, Call, Outputs, ParallelEnd, ParallelStart, ToolCall, Trace, Wait

LEVELS: tuple[Level, ...] = ("low", "n", "high")


@dataclass(frozen=True, slots=True)
class Distribution:
    """Median, 90th and 99th percentile (linear between ranks) and maximum of some token counts."""

    median: float
    p90: float
    p99: float
    max: int


@dataclass(frozen=True, slots=True)
class ChangingLines:
    """Tokens that the planned optimum serves with lines that change by themselves, such as dates, and without them.

    At the middle level, and without preloading: a system prompt that is another each time would else be taken for cached.
    """

    sent: int
    masked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStatistics:
    """The figures of one trace; sums are kept so that traces can be pooled."""

    calls: int
    aux_calls: int
    domains: int
    isl: tuple[int, ...]
    """Prompt tokens of each call, in order of calls."""
    osl: tuple[int, ...]
    """Output tokens of each call, reasoning included."""
    reasoning_tokens: int
    last_isl: int
    last_osl: int
    turns: int
    """Calls of the longest conversation."""
    tool_calls: int
    tool_s: float
    """Sum of the tools' durations."""
    wait_s: float
    """Sum of the waits that are no tool."""
    duration_s: float | None
    """From the first request to the last answer; None where the trace holds no times."""
    parallelism: int
    """Most calls in flight at once, by recorded times; without times, most branches open at once."""
    system_tokens: int
    """Prompt tokens that lie in a shared prefix of kind system."""
    hit_tokens: dict[Level, int]
    """Prompt tokens that the planned optimum serves from the cache, at each level of belief."""
    changing: ChangingLines | None
    """What lines that change by themselves cost; None where none of them matters."""
    cached_tokens: int
    """What the server reported while recording, over the calls where it did."""
    cached_of_tokens: int
    """Prompt tokens of the calls for which the server reported cached tokens."""
    outputs: Outputs

    @property
    def prompt_tokens(self) -> int:
        return sum(self.isl)

    @property
    def completion_tokens(self) -> int:
        return sum(self.osl)

    def hit_rate(self, level: Level = "n") -> float:
        """Return planned hit tokens / prompt tokens."""
        return self.hit_tokens[level] / self.prompt_tokens if self.isl else 0.0

    @property
    def live_hit_rate(self) -> float | None:
        """Return reported cached tokens / prompt tokens of the calls that report them; None without a report."""
        return self.cached_tokens / self.cached_of_tokens if self.cached_of_tokens else None


def describe(trace: Trace, assumptions: Assumptions | None = None) -> TraceStatistics:
    """Return the figures of a trace; its optimum holds under the assumptions, at all three levels of belief."""
    return describe_together([Member(name="", trace=trace)], assumptions)[0]


def describe_together(members: Sequence[Member], assumptions: Assumptions | None = None) -> list[TraceStatistics]:
    """Return the figures of the traces of a corpus that share one cache, in the order of all their calls."""
    assumptions = assumptions or Assumptions()
    hits = {level: planned_hits_together(members, _at(assumptions, level)) for level in LEVELS}
    changing = _changing_lines(members, assumptions)
    return [
        _described(member.trace, {level: sum(found[index]) for level, found in hits.items()}, changing[index])
        for index, member in enumerate(members)
    ]


def _changing_lines(members: Sequence[Member], assumptions: Assumptions) -> list[ChangingLines | None]:
    """Return what volatile lines cost each trace, where one of them has some."""
    if not any(is_volatile(member.trace) for member in members):
        return [None] * len(members)
    cold = replace(assumptions, preload=False)
    sent = planned_hits_together(members, cold)
    without = planned_hits_together([replace(member, trace=masked(member.trace)) for member in members], cold)
    return [ChangingLines(sum(of), sum(to)) for of, to in zip(sent, without, strict=True)]


def _described(trace: Trace, hit_tokens: dict[Level, int], changing: ChangingLines | None) -> TraceStatistics:
    calls = list(trace.calls())
    reported = [call for call in calls if call.cached_tokens is not None]
    tools = [event for event in trace.events if isinstance(event, ToolCall)]
    return TraceStatistics(
        calls=len(calls),
        aux_calls=sum(call.aux for call in calls),
        domains=len({call.domain for call in calls}),
        isl=tuple(call.prompt_tokens for call in calls),
        osl=tuple(call.completion_tokens for call in calls),
        reasoning_tokens=sum(call.reasoning_tokens for call in calls),
        last_isl=calls[-1].prompt_tokens if calls else 0,
        last_osl=calls[-1].completion_tokens if calls else 0,
        turns=max(Counter(call.conversation_id for call in calls).values(), default=0),
        tool_calls=len(tools),
        tool_s=sum(tool.duration_ms for tool in tools) / 1000,
        wait_s=sum(event.duration_ms for event in trace.events if isinstance(event, Wait)) / 1000,
        duration_s=_duration_s(calls),
        parallelism=_parallelism(trace, calls),
        system_tokens=sum(_system_tokens(trace, calls)),
        hit_tokens=hit_tokens,
        changing=changing,
        cached_tokens=sum(call.cached_tokens or 0 for call in reported),
        cached_of_tokens=sum(call.prompt_tokens for call in reported),
        outputs=trace.outputs,
    )


def distribution(values: Sequence[int]) -> Distribution:
    """Return the percentiles of some counts; all 0 when there are none."""
    if not values:
        return Distribution(0, 0, 0, 0)
    ordered = sorted(values)
    return Distribution(
        median=_percentile(ordered, 0.5),
        p90=_percentile(ordered, 0.9),
        p99=_percentile(ordered, 0.99),
        max=ordered[-1],
    )


def _percentile(ordered: Sequence[int], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _at(assumptions: Assumptions, level: Level) -> Assumptions:
    return replace(assumptions, level=level)


def _duration_s(calls: Sequence[Call]) -> float | None:
    spans = _spans(calls)
    return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1000 if spans else None


def _spans(calls: Iterable[Call]) -> list[tuple[float, float]]:
    """Return start and end in milliseconds of the calls that have both."""
    return [(c.at_ms, c.at_ms + c.duration_ms) for c in calls if c.at_ms is not None and c.duration_ms is not None]


def _parallelism(trace: Trace, calls: Sequence[Call]) -> int:
    spans = _spans(calls)
    return _most_at_once(spans) if spans else _most_branches(trace)


def _most_at_once(spans: Sequence[tuple[float, float]]) -> int:
    """Count the most spans that overlap; one that ends where another starts does not overlap it."""
    changes = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return max(most, 1)


def _most_branches(trace: Trace) -> int:
    """Count the most branches that can be open at once: those of the open regions, or the one that runs alone."""
    callers: set[Branch | None] = {event.branch for event in trace.events if isinstance(event, Call)}
    children = Counter(branch[0] for branch in callers if branch is not None)
    open_regions: dict[int, int] = {}
    most = 1 if callers else 0
    for event in trace.events:
        if isinstance(event, ParallelStart):
            open_regions[event.region] = children[event.region]
        elif isinstance(event, ParallelEnd):
            open_regions.pop(event.region)
        most = max(most, sum(open_regions.values()))
    return most


def _system_tokens(trace: Trace, calls: Iterable[Call]) -> list[int]:
    system: dict[Node, int] = {}
    for shared in trace.shared_prefixes:
        inherited = min(shared.prefix.tokens, system[shared.prefix.of]) if shared.prefix else 0
        system[shared.id] = shared.tokens if shared.kind == "system" else inherited
    counts = []
    for call in calls:
        of = call.prefix.of
        system[call.call] = 0 if of is None else min(call.prefix.tokens, system[of])
        counts.append(system[call.call])
    return counts
