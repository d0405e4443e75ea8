"""Prometheus text as samples: the lines that matter, read by prometheus-client's parser.

Servers write the older text format or OpenMetrics, counters with or without `_total`, and bodies of megabytes, most of
it buckets of histograms. So the lines of the wanted metrics are picked out first and only they are parsed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

from rotoscope.replayer.server_metrics.counts import Counter

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_TOTAL = "_total"
_MOST_LINES = 40_000
"""Parsing takes about 25 microseconds a line; servers have hundreds without the buckets, with many ranks thousands."""
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
    """The samples of one scrape."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_name: dict[str, list[Sample]] = {}
        for sample in samples:
            self._by_name.setdefault(sample.name, []).append(sample)

    def counter(self, *names: str, **labels: tuple[str, ...]) -> Counter | None:
        """Return the first of these counters that there is, of the series whose labels begin with one of the values."""
        for name in names:
            found = [one for one in self._by_name.get(name, ()) if _has(one, labels)]
            if found:
                return Counter(MappingProxyType({(one.name, one.labels): max(one.value, 0.0) for one in found}))
        return None

    def highest(self, *names: str) -> float | None:
        """Return the highest value among all ranks, of the first of these gauges that there is."""
        for name in names:
            if found := self._by_name.get(name):
                return max(one.value for one in found)
        return None

    def over_replicas(self, *names: str) -> float | None:
        """Return the sum over the replicas, of the first of these gauges that there is; ranks of one tell the same."""
        for name in names:
            if found := self._by_name.get(name):
                highest: dict[tuple[str, ...], float] = {}
                for one in found:
                    replica = tuple(value for label, value in one.labels if label in _REPLICA_LABELS)
                    highest[replica] = max(one.value, highest.get(replica, one.value))
                return sum(highest.values())
        return None

    def label(self, name: str, label: str) -> str | None:
        """Return the value of a label of a metric that exists for its labels only."""
        return next((dict(one.labels).get(label) for one in self._by_name.get(name, ())), None)

    def __contains__(self, prefix: str) -> bool:
        """Say whether there is a metric whose name begins so."""
        return any(name.startswith(prefix) for name in self._by_name)


def read_samples(text: str, prefixes: tuple[str, ...]) -> Samples:
    """Return the samples of metrics whose names begin so; raise NotPrometheus where such a line cannot be read."""
    from prometheus_client.parser import text_string_to_metric_families

    lines = list(islice(_wanted_lines(text, prefixes), _MOST_LINES + 1))
    if len(lines) > _MOST_LINES:
        raise NotPrometheus(f"there are more than {_MOST_LINES} lines of metrics")
    wanted = "\n".join(lines) + "\n"
    try:
        families = list(text_string_to_metric_families(wanted))
    except ValueError as error:
        raise NotPrometheus("a line is no sample of a metric") from error
    return Samples(
        Sample(sample.name.removesuffix(_TOTAL), tuple(sorted(sample.labels.items())), float(sample.value))
        for family in families
        for sample in family.samples
        if math.isfinite(sample.value)  # a gauge without a value is NaN
    )


def _wanted_lines(text: str, prefixes: tuple[str, ...]) -> Iterator[str]:
    for line in text.split("\n"):
        name = _NAME.match(line)
        if name and line.startswith(prefixes) and not name[0].endswith(("_bucket", "_created")):
            yield line


def _has(sample: Sample, labels: dict[str, tuple[str, ...]]) -> bool:
    mine = dict(sample.labels)
    return all(mine.get(label, "").startswith(values) for label, values in labels.items())
