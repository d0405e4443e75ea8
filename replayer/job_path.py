"""What a job's time goes to: the path of steps that led to its last answer, and branches that wait for their siblings.

Each step is due when the last of what it waits for is over. So one chain of steps leads back from any moment to the
start, without a gap: its path. Whatever is not on the path of the last answer could have taken less time, and the job
would have ended when it did; what is on it is where the job's latency went. At a join the path goes on from the branch
that came last, so a join costs it nothing; how long the other branches waited for that one is counted apart.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeAlias

from rotoscope.replayer.exchange import Exchange
from rotoscope.traces.model import Branch

PathPart: TypeAlias = Literal["queue_prefill_s", "decode_s", "tool_s", "client_s", "overhead_s"]


class JobSplit(NamedTuple):
    """Seconds of a job's latency, to which they add up."""

    queue_prefill_s: float = 0.0
    """A request was sent and had no token yet: queued, or its prompt being computed."""
    decode_s: float = 0.0
    """An answer was arriving."""
    tool_s: float = 0.0
    client_s: float = 0.0
    """Recorded waits that are no tools: the agent's own work, people, other agents."""
    overhead_s: float = 0.0
    """Of the replay: prompts were made, answers looked at, steps started late."""

    @property
    def generating_s(self) -> float:
        return self.queue_prefill_s + self.decode_s

    @property
    def waiting_s(self) -> float:
        return self.tool_s + self.client_s + self.overhead_s

    def plus(self, part: PathPart, seconds: float) -> JobSplit:
        """Return the same with more of one part."""
        return self._replace(**{part: getattr(self, part) + seconds})

    def rounded(self) -> JobSplit:
        """Return the same in whole microseconds, which add up to the rounded sum."""
        ends_s = [round(end_s, 6) for end_s in accumulate(self, initial=0.0)]
        return JobSplit(*(round(end_s - start_s, 6) for start_s, end_s in pairwise(ends_s)))


@dataclass(frozen=True, slots=True)
class Path:
    """The steps that led to a moment of a session, by what their time went to."""

    until_s: float
    """On the run's clock."""
    split: JobSplit | None = None
    """Since the path's first request was sent; None before."""
    lead: tuple[tuple[PathPart, float, float], ...] = ()
    """What came before that, with start and end: a request of another branch may have been sent meanwhile."""

    def then(self, part: PathPart, until_s: float) -> Path:
        """Return the path that goes on with one part up to a time; nothing goes back in time."""
        if until_s <= self.until_s:
            return self
        if self.split is None:
            return Path(until_s, None, (*self.lead, (part, self.until_s, until_s)))
        return Path(until_s, self.split.plus(part, until_s - self.until_s), self.lead)

    def through(self, exchange: Exchange, until_s: float) -> Path:
        """Return the path that goes on with a request, up to its end or, where a part of the answer led on, to that."""
        if exchange.sent_s is None:
            return self.then("overhead_s", until_s)
        first_s = until_s if exchange.first_token_s is None else min(exchange.first_token_s, until_s)
        sent = self.then("overhead_s", exchange.sent_s)
        asked = Path(sent.until_s, sent.split or JobSplit(), sent.lead)
        return asked.then("queue_prefill_s", first_s).then("decode_s", until_s)

    def split_from(self, start_s: float) -> JobSplit:
        """Return what the time from the job's start, when its first request was sent, went to."""
        split = self.split or JobSplit()
        for part, begun_s, ended_s in self.lead:
            split = split.plus(part, max(0.0, ended_s - max(begun_s, start_s)))
        return split


class JoinWaits:
    """How long branches that were done waited for their siblings, added up over the branches of a session."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._ends: defaultdict[int, dict[Branch | None, float]] = defaultdict(dict)
        """When the branches that came to a join were done, by the join's step."""

    def came(self, join: int, branch: Branch | None, over_s: float) -> None:
        """Take note that a step of a branch is over for which a join waits."""
        ends = self._ends[join]
        ends[branch] = max(ends.get(branch, over_s), over_s)

    def joined(self, join: int, over_s: float) -> None:
        """Take note that a join is over."""
        self.total_s += sum(over_s - end_s for end_s in self._ends.pop(join, {}).values())
