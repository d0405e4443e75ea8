"""Prometheus text as samples: the lines that matter, read by prometheus-client's parser.

Servers write the older text format or OpenMetrics, counters with or without `_total`, and bodies of megabytes, most of
it buckets of histograms. Beside a run they are read once a second, so only lines of metrics that are asked for are parsed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rotoscope.replayer.server_metrics.counts import Counter

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_TOTAL = "_total"
_MOST_LINES = 40_000
"""Servers have hundreds without the buckets, with many ranks thousands."""
_REPLICA_LABELS = ("engine", "dp_rank", "worker_id", "dynamo_component", "model_name", "model")
"""Labels of which each value is a server of its own; series that differ in others (tensor-parallel ranks) are copies."""


class NotPrometheus(ValueError):
    """Say that a body is no Prometheus text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a metric, under its name without `_total`."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Samples:
    """The samples of one scrape, each metric parsed when it is asked for; all methods raise NotPrometheus."""

    def __init__(self, lines: Mapping[str, Sequence[str]]) -> None:
        """Take the lines of each metric, by its name without `_total`."""
        self._lines = lines
        self._parsed: dict[str, tuple[Sample, ...]] = {}

    def of(self, name: str) -> tuple[Sample, ...]:
        """Return all series of a metric that have a value; a gauge without one is NaN."""
        if name not in self._parsed:
            self._parsed[name] = tuple(_parsed(self._lines.get(name, ())))
        return self._parsed[name]

    def counter(self, *names: str, **labels: tuple[str, ...]) -> Counter | None:
        """Return the first of these counters that there is, of the series whose labels begin with one of the values."""
        for name in names:
            found = [one for one in self.of(name) if _has(one, labels)]
            if found:
                return Counter(MappingProxyType({(one.name, one.labels): max(one.value, 0.0) for one in found}))
        return None

    def highest(self, *names: str) -> float | None:
        """Return the highest value among all ranks, of the first of these gauges that there is."""
        for name in names:
            if found := self.of(name):
                return max(one.value for one in found)
        return None

    def over_replicas(self, *names: str) -> float | None:
        """Return the sum over the replicas, of the first of these gauges that there is; ranks of one tell the same."""
        for name in names:
            if found := self.of(name):
                highest: dict[tuple[str, ...], float] = {}
                for one in found:
                    highest[_replica(one)] = max(one.value, highest.get(_replica(one), one.value))
                return sum(highest.values())
        return None

    def replicas(self, name: str) -> int | None:
        """Return how many replicas tell this metric; None where it is not told."""
        return len({_replica(one) for one in self.of(name)}) or None

    def label(self, name: str, label: str) -> str | None:
        """Return the value of a label of a metric that exists for its labels only."""
        return next((dict(one.labels).get(label) for one in self.of(name)), None)

    def __contains__(self, prefix: str) -> bool:
        """Say whether there is a metric whose name begins so."""
        return any(name.startswith(prefix) for name in self._lines)


def read_samples(text: str, prefixes: tuple[str, ...]) -> Samples:
    """Return the samples of metrics whose names begin so; raise NotPrometheus where there are more than any server has."""
    lines: dict[str, list[str]] = {}
    for number, (name, line) in enumerate(_wanted_lines(text, prefixes)):
        if number == _MOST_LINES:
            raise NotPrometheus(f"there are more than {_MOST_LINES} lines of metrics")
        lines.setdefault(name.removesuffix(_TOTAL), []).append(line)
    return Samples(lines)


def _wanted_lines(text: str, prefixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if line.startswith(prefixes):
            name = _NAME.match(line)
            if name and not name[0].endswith(("_bucket", "_created")):
                yield name[0], line


def _parsed(lines: Sequence[str]) -> Iterator[Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families("\n".join(lines) + "\n")) if lines else []
    except ValueError as error:
        raise NotPrometheus("a line is no sample of a metric") from error
    for family in families:
        for sample in family.samples:
            if math.isfinite(sample.value):
                labels = tuple(sorted(sample.labels.items()))
                yield Sample(sample.name.removesuffix(_TOTAL), labels, float(sample.value))


def _replica(sample: Sample) -> tuple[str, ...]:
    return tuple(value for label, value in sample.labels if label in _REPLICA_LABELS)


def _has(sample: Sample, labels: dict[str, tuple[str, ...]]) -> bool:
    mine = dict(sample.labels)
    return all(mine.get(label, "").startswith(values) for label, values in labels.items())
