"""Arrivals as they were recorded, at their own rate or at another: sessions are added or dropped, time is not stretched.

Stretched time would keep the pattern and change how long its bursts are beside what a session takes. So a lower rate
drops sessions at random, and a higher one lays copies of the recording over it, each turned by a time drawn at random:
what would begin after the end begins at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rotoscope.replayer.load.draws import generator
from rotoscope.replayer.metrics import SECONDS_PER_HOUR
from rotoscope.replayer.options import MOST_PLANNED
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats.recognise import LabelledTrace


def recorded_starts_s(traces: Sequence[LabelledTrace]) -> tuple[float, ...]:
    """Return when each trace started; raise UnusableInput where they do not say it on one clock."""
    if len({one.corpus or one.path for one in traces}) > 1:
        raise UnusableInput(
            "the traces have no common clock for recorded arrivals: give one file or folder of a corpus"
        )
    starts_s = tuple(one.member.start_ms / 1000 for one in traces if one.member.start_ms is not None)
    if len(starts_s) < len(traces):
        raise UnusableInput("the traces do not say when they started: choose --arrivals constant, poisson or gamma:CV")
    return starts_s


def recorded_arrivals(
    starts_s: Sequence[float], *, rate_per_h: float | None, seed: int
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return times of starts, in order and the first at 0, and the session that starts at each.

    Session i is a copy of trace i modulo their number. A rate of None is the recorded one; raise UnusableInput where it is
    to be changed and there is none.
    """
    found = sorted(_arrivals(starts_s, _copies(starts_s, rate_per_h), seed))
    if not found:
        raise UnusableInput("no session arrives at so low a rate in the time recorded: give a higher --rate")
    first_s = found[0][0]
    return tuple(start_s - first_s for start_s, _ in found), tuple(number for _, number in found)


def period_s(starts_s: Sequence[float]) -> float:
    """Return the time that is recorded: from the first start to the last, and as long on as is between two on average."""
    length_s = max(starts_s) - min(starts_s)
    return length_s + length_s / max(1, len(starts_s) - 1)


def _copies(starts_s: Sequence[float], rate_per_h: float | None) -> float:
    if rate_per_h is None:
        return 1.0
    over_s = period_s(starts_s)
    if not over_s:
        raise UnusableInput("the traces started together: there is no recorded rate that could be changed to --rate")
    copies = rate_per_h / SECONDS_PER_HOUR * over_s / len(starts_s)
    if copies * len(starts_s) > MOST_PLANNED:
        raise UnusableInput(
            f"more than {MOST_PLANNED:,} sessions arrive at this rate in the time recorded: give less --rate"
        )
    return copies


def _arrivals(starts_s: Sequence[float], copies: float, seed: int) -> Iterator[tuple[float, int]]:
    """Yield the arrivals of all whole copies, and of a part of another."""
    traces, over_s, begin_s = len(starts_s), period_s(starts_s), min(starts_s)
    whole = int(copies)
    for copy in range(whole + 1):
        draws = generator(seed, f"copy {copy}")
        turned_s = draws.random() * over_s if copy else 0.0
        kept = draws.sample(range(traces), traces if copy < whole else round(traces * (copies - whole)))
        for trace in kept:
            since_s = starts_s[trace] - begin_s
            yield (since_s + turned_s) % over_s if copy else since_s, copy * traces + trace
