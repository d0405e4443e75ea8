"""What any prefix cache must still hold of a prompt when it is sent, however it shares, computes and evicts.

1. Only whole blocks count, of the prompt of an earlier call of the same session that was answered before: what was
   generated, what is being computed and what only others have sent may be there or not.
2. Where the size of the cache is known, nothing that is used again can have been evicted as long as all that could be
   used in between fits half of it: all tokens of all sessions that were in flight at any time since this session
   began, the shared prefixes, and what the server counts of others.
3. Where it is not known, sessions come one after the other, and only prompts of which at least half must be there
   count: a server with slots takes a slot whose prompt is much like the new one. Where the server has no metrics either,
   it may be a hosted endpoint, which keeps no short prompts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from rotoscope.replayer.gates.evidence import Evidence, unforeseen_tokens
from rotoscope.replayer.metrics import Interval
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.sent import Origin
from rotoscope.replayer.token_rates import isl, request_time
from rotoscope.replayer.token_streams import CallName

LARGEST_BLOCK = 128
"""Tokens, where the server does not tell: the default of no engine is larger."""
LEAST_HOSTED = 1024
"""Tokens of a prompt that a hosted endpoint keeps, by OpenAI's documentation of its cache."""
_SAME_TIME_S = 5e-6
"""Times are rounded to microseconds."""


def findable_requests(evidence: Evidence) -> list[tuple[RequestResult, int]]:
    """Return the answered requests of which some tokens must be in the cache, with how many."""
    server, setup = evidence.server, evidence.summary.setup
    requests = evidence.summary.request_results
    capacity = server.capacity_tokens if server and server.replicas == 1 else None
    room = None if capacity is None else _Room.of(evidence, capacity_tokens=capacity)
    block_size = (server and server.block_size) or max(setup.block_size, LARGEST_BLOCK)
    answered = {CallName(one.session, one.call): time for one in requests if (time := _answered_time(one))}
    least = LEAST_HOSTED if server is None else 1
    found = []
    for one in requests:
        if CallName(one.session, one.call) in answered and (room is None or room.has_kept(one)):
            shared = _shared_before(one, evidence.origins, answered) - unforeseen_tokens(setup)
            tokens = max(min(shared, isl(one) - 1), 0) // block_size * block_size
            if tokens >= least and (room is not None or 2 * tokens >= isl(one)):
                found.append((one, tokens))
    return found


def _answered_time(request: RequestResult) -> Interval | None:
    return request_time(request) if request.status == "ok" else None


def _shared_before(
    request: RequestResult, origins: Mapping[CallName, Origin], answered: Mapping[CallName, Interval]
) -> int:
    """Return how many leading tokens a prompt shares with one of its session that had been answered when it was sent."""
    name = CallName(request.session, request.call)
    sent_s = answered[name].start_s
    origin = origins[name]
    shared = origin.shared
    while origin.call is not None:
        name = CallName(request.session, origin.call)
        origin = origins[name]
        if name in answered and answered[name].end_s <= sent_s + _SAME_TIME_S:
            return min(shared, origin.prompt_tokens)
        shared = min(shared, origin.shared)
    return 0


@dataclass(frozen=True, slots=True)
class _Room:
    """Tokens of the sessions in flight over time, beside those that may be there all the time."""

    room_tokens: float
    sessions: Mapping[int, Interval]
    starts_s: Sequence[float]
    begun_tokens: Sequence[int]
    """Of the first 0, 1, 2 and so on sessions that began."""
    ends_s: Sequence[float]
    ended_tokens: Sequence[int]

    @classmethod
    def of(cls, evidence: Evidence, *, capacity_tokens: int) -> _Room:
        sessions = _session_times(evidence.summary.request_results)
        tokens: dict[int, int] = defaultdict(int)
        for name, origin in evidence.origins.items():
            tokens[name.session] += origin.own_tokens
        begun = sorted((time.start_s, tokens[number]) for number, time in sessions.items())
        ended = sorted((time.end_s, tokens[number]) for number, time in sessions.items())
        return cls(
            room_tokens=capacity_tokens / 2 - evidence.shared_tokens - _others_tokens(evidence),
            sessions=sessions,
            starts_s=[at for at, _ in begun],
            begun_tokens=[0, *accumulate(size for _, size in begun)],
            ends_s=[at for at, _ in ended],
            ended_tokens=[0, *accumulate(size for _, size in ended)],
        )

    def has_kept(self, request: RequestResult) -> bool:
        """Say whether nothing of its session can have been evicted when a request was sent."""
        assert request.start_s is not None
        begun = self.begun_tokens[bisect_right(self.starts_s, request.start_s)]
        ended = self.ended_tokens[bisect_left(self.ends_s, self.sessions[request.session].start_s)]
        return begun - ended <= self.room_tokens


def _session_times(requests: Sequence[RequestResult]) -> dict[int, Interval]:
    """Return when each session had requests; one of which a request did not end stays to the end."""
    times: dict[int, Interval] = {}
    for one in requests:
        if one.start_s is not None:
            before = times.get(one.session, Interval(inf, 0.0))
            end_s = inf if one.latency_s is None else one.start_s + one.latency_s
            times[one.session] = Interval(min(before.start_s, one.start_s), max(before.end_s, end_s))
    return times


def _others_tokens(evidence: Evidence) -> float:
    """Return what the server counts of prompts beside ours."""
    counted = evidence.summary.counted
    if counted is None or counted.unit != "tokens" or counted.prompt is None:
        return 0.0
    return max(counted.prompt - evidence.summary.cache.prompt_tokens, 0.0)
