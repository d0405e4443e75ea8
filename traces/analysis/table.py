"""The rows of `rotoscope analyze`: the same values for the terminal, JSON and CSV.

A row is a trace, a group of traces with one label, or all of them. Groups are given pooled (sums over all their
calls) and as the mean over traces, because the two differ and the field prints both.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rotoscope.traces.analysis.hit_rates import HIT_RATES, request_hits
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.analysis.statistics import LEVELS, TraceStatistics, describe_together, distribution
from rotoscope.traces.formats.recognise import LabelledTrace
from rotoscope.traces.model import Outputs

Value: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Described:
    """A trace's figures with its label and the name it is shown under."""

    label: str
    name: str
    statistics: TraceStatistics


def described(opened: Sequence[LabelledTrace], assumptions: Assumptions) -> list[Described]:
    """Return the figures of traces, those of one corpus on one cache, in the order given."""
    out: dict[int, Described] = {}
    for places in _caches(opened):
        statistics = describe_together([opened[place].member for place in places], assumptions)
        for place, figures in zip(places, statistics, strict=True):
            out[place] = Described(opened[place].label, opened[place].stem, figures)
    return [out[place] for place in sorted(out)]


def hit_rate_rows(opened: Sequence[LabelledTrace], block_size: int | None) -> list[tuple[str, ...]]:
    """Return one line a definition of the hit rate: its name, the rate of all requests, what it counts, who uses it.

    Nothing is preloaded and outputs count as kept. Without a block size the coarsest granularity of the traces is
    taken, 16 where they are known by token.
    """
    granularity = max((one.trace.prefix_granularity for one in opened), default=1)
    size = block_size or (granularity if granularity > 1 else 16)
    assumptions = Assumptions(preload=False)
    members = [[opened[place].member for place in places] for places in _caches(opened)]
    caches = [request_hits(sharing, size, assumptions) for sharing in members]
    head = ("definition", f"rate, blocks of {size}", "what is counted", "used by")
    return [head, *((one.name, f"{one.of(caches):.4f}", one.definition, one.source) for one in HIT_RATES)]


def _caches(opened: Sequence[LabelledTrace]) -> list[list[int]]:
    """Return the places of the traces that share a cache; a trace that is given twice does not meet itself."""
    caches: dict[object, list[int]] = {}
    times: Counter[object] = Counter()
    for place, one in enumerate(opened):
        times[one.corpus, one.member.name] += 1
        cache = (one.corpus, times[one.corpus, one.member.name]) if one.corpus else place
        caches.setdefault(cache, []).append(place)
    return list(caches.values())


def rows(described: Sequence[Described]) -> list[dict[str, Value]]:
    """Return one flat row a trace, then one a label, then one over all where there are several labels."""
    labels = list(dict.fromkeys(one.label for one in described))
    out = [_row("trace", one.label, one.name, [one]) for one in described]
    for label in labels:
        out.append(_row("label", label, label, [one for one in described if one.label == label]))
    if len(labels) > 1:
        out.append(_row("all", "", "all", described))
    return out


_CHANGING = (
    ("nothing preloaded, as sent", "hit_rate_tokens_sent"),
    ("without dates, billing lines", "hit_rate_tokens_masked"),
)
"""Rates over the traces that have lines that change by themselves."""


def definition(assumptions: Assumptions) -> str:
    """Say in one sentence what the hit rates of these rows mean."""
    profile = assumptions.profile
    blocks = (
        f"engine profile {profile.name}: full blocks of {profile.block_size} tokens, one prompt token always computed"
        if profile
        else "tokens, no blocks"
    )
    decode = assumptions.decode_reuse and (profile is None or profile.decode_reuse)
    return (
        f"hit rate = prompt tokens an infinite cache serves / prompt tokens; planned optimum; {blocks}; "
        f"decode reuse {'on' if decode else 'off'}; "
        f"system prefixes {'preloaded' if assumptions.preload else 'not preloaded'}; "
        "each trace on a cache of its own, those of one corpus on one cache in its order"
    )


def lines(groups: Sequence[Mapping[str, Value]]) -> list[tuple[str, ...]]:
    """Return the lines of the table for people: a name, then one value a group."""
    out = [(name, *(_shown(group, keys, form) for group in groups)) for name, keys, form in _LINES]
    for name, key in (("optimal hit rate, pooled", "hit_rate_tokens"), ("mean over traces", "hit_rate_tokens_mean")):
        out.append((name, *(_rate(group, key) for group in groups)))
    if any(group["hit_rate_tokens_masked"] is not None for group in groups):
        out += [(name, *(_percent(group[key]) for group in groups)) for name, key in _CHANGING]
    if any(group["decode_reuse_known"] != "yes" for group in groups):
        out.append(("reuse of outputs", *(_REUSE[str(group["decode_reuse_known"])] for group in groups)))
    if any(group["live_hit_rate_tokens"] is not None for group in groups):
        out.append(("hit rate while recorded", *(_percent(group["live_hit_rate_tokens"]) for group in groups)))
    return out


def as_csv(table: Sequence[Mapping[str, Value]]) -> str:
    """Return the rows as CSV with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(table[0]) if table else ["scope"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()


_LINES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("traces", ("traces",), ",d"),
    ("requests", ("requests",), ",d"),
    ("requests / trace, mean", ("requests_per_trace",), ",.1f"),
    ("turns, longest conversation, mean", ("turns",), ",.1f"),
    ("requests in flight, most", ("parallelism",), ",d"),
    ("ISL median, p90, p99, max", ("isl_median", "isl_p90", "isl_p99", "isl_max"), ",.0f"),
    ("OSL median, p90, p99, max", ("osl_median", "osl_p90", "osl_p99", "osl_max"), ",.0f"),
    ("last turn ISL, OSL, mean", ("last_isl", "last_osl"), ",.0f"),
    ("tool calls", ("tool_calls",), ",d"),
    ("tool time / trace, mean, s", ("tool_s",), ",.2f"),
    ("other waits / trace, mean, s", ("wait_s",), ",.2f"),
    ("duration / trace, mean, s", ("duration_s",), ",.1f"),
    ("system prefix, share of prompts", ("system_share",), ".1%"),
)


_REUSE = {"no": "unknown: at least this", "assumed": "assumed where prompts grew", "yes": "known"}


def _shown(group: Mapping[str, Value], keys: Sequence[str], form: str) -> str:
    values = [group[key] for key in keys]
    return "  ".join("-" if value is None or isinstance(value, str) else format(value, form) for value in values)


def _rate(group: Mapping[str, Value], key: str) -> str:
    low, best, high = group[f"{key}_low"], group[key], group[f"{key}_high"]
    return _percent(best) if low == best == high else f"{_percent(best)} ({_percent(low)} to {_percent(high)})"


def _percent(value: Value) -> str:
    return "-" if value is None or isinstance(value, str) else f"{value:.2%}"


def _row(scope: str, label: str, name: str, group: Sequence[Described]) -> dict[str, Value]:
    statistics = [one.statistics for one in group]
    row: dict[str, Value] = {"scope": scope, "label": label, "name": name, "traces": len(group)}
    row |= _counts(statistics) | _lengths(statistics) | _times(statistics) | _rates(statistics)
    return row


def _counts(statistics: Sequence[TraceStatistics]) -> dict[str, Value]:
    return {
        "requests": sum(one.calls for one in statistics),
        "requests_per_trace": _mean([one.calls for one in statistics]),
        "aux_requests": sum(one.aux_calls for one in statistics),
        "turns": _mean([one.turns for one in statistics]),
        "domains": max((one.domains for one in statistics), default=0),
        "parallelism": max((one.parallelism for one in statistics), default=0),
    }


def _lengths(statistics: Sequence[TraceStatistics]) -> dict[str, Value]:
    out: dict[str, Value] = {
        "prompt_tokens": sum(one.prompt_tokens for one in statistics),
        "completion_tokens": sum(one.completion_tokens for one in statistics),
        "reasoning_tokens": sum(one.reasoning_tokens for one in statistics),
    }
    for name in ("isl", "osl"):
        spread = distribution([value for one in statistics for value in getattr(one, name)])
        out |= {f"{name}_median": spread.median, f"{name}_p90": spread.p90}
        out |= {f"{name}_p99": spread.p99, f"{name}_max": spread.max}
    out["last_isl"] = _mean([one.last_isl for one in statistics])
    out["last_osl"] = _mean([one.last_osl for one in statistics])
    return out


def _times(statistics: Sequence[TraceStatistics]) -> dict[str, Value]:
    durations = [one.duration_s for one in statistics if one.duration_s is not None]
    return {
        "tool_calls": sum(one.tool_calls for one in statistics),
        "tool_s": _mean([one.tool_s for one in statistics]),
        "wait_s": _mean([one.wait_s for one in statistics]),
        "duration_s": _mean(durations) if durations else None,
    }


def _reuse_known(outputs: set[Outputs]) -> str:
    if "unknown" in outputs:
        return "no"
    return "assumed" if "assumed" in outputs else "yes"


def _rates(statistics: Sequence[TraceStatistics]) -> dict[str, Value]:
    out: dict[str, Value] = {
        "decode_reuse_known": _reuse_known({one.outputs for one in statistics}),
        "system_share": _share(sum(one.system_tokens for one in statistics), statistics),
    }
    for level in LEVELS:
        suffix = "" if level == "n" else f"_{level}"
        out[f"hit_rate_tokens{suffix}"] = _share(sum(one.hit_tokens[level] for one in statistics), statistics)
        out[f"hit_rate_tokens_mean{suffix}"] = _mean([one.hit_rate(level) for one in statistics if one.calls])
    changing = [(one, one.changing) for one in statistics if one.changing is not None]
    volatile, lines = [one for one, _ in changing], [lines for _, lines in changing]
    out["hit_rate_tokens_sent"] = _share(sum(x.sent for x in lines), volatile) if lines else None
    out["hit_rate_tokens_masked"] = _share(sum(x.masked for x in lines), volatile) if lines else None
    reported = sum(one.cached_of_tokens for one in statistics)
    out["live_hit_rate_tokens"] = sum(one.cached_tokens for one in statistics) / reported if reported else None
    return out


def _share(tokens: int, statistics: Sequence[TraceStatistics]) -> float:
    prompt_tokens = sum(one.prompt_tokens for one in statistics)
    return tokens / prompt_tokens if prompt_tokens else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
