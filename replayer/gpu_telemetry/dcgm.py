"""GPUs as a DCGM exporter tells of them: Prometheus text, a series a GPU and field.

Which fields there are depends on the exporter's list of them, the GPU and its driver, and may change while it runs. A
value that DCGM does not have is told as one of several huge numbers, so what no GPU can reach is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rotoscope.replayer.gpu_telemetry.readings import Reading, Readings
from rotoscope.replayer.server_metrics.samples import Sample, read_samples

_PREFIX = "DCGM_FI_DEV_"


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a value goes, in which unit, and the highest that can be meant."""

    name: str
    factor: float
    highest: float


_FIELDS = {
    f"{_PREFIX}POWER_USAGE": _Field("power_w", 1.0, 1e5),
    f"{_PREFIX}TOTAL_ENERGY_CONSUMPTION": _Field("energy_j", 1e-3, 1e15),  # mJ
    f"{_PREFIX}GPU_UTIL": _Field("utilisation", 1e-2, 100.0),
    f"{_PREFIX}FB_USED": _Field("memory_mib", 1.0, 1e8),
    f"{_PREFIX}GPU_TEMP": _Field("temperature_c", 1.0, 1e3),
    f"{_PREFIX}XID_ERRORS": _Field("xid", 1.0, 1e6),
}


def read_gpus(text: str) -> Readings:
    """Return what the exporter tells of each GPU; raise NotPrometheus where a line that is needed cannot be read.

    Parts of a GPU (MIG) are one GPU, of which the highest value of each field counts.
    """
    samples = read_samples(text, (_PREFIX,))
    told: dict[str, dict[str, float]] = {}
    for name, field in _FIELDS.items():
        for sample in samples.of(name):
            if 0 <= sample.value <= field.highest:
                values = told.setdefault(_key(sample), {})
                values[field.name] = max(sample.value * field.factor, values.get(field.name, 0.0))
    return {key: _reading(values) for key, values in told.items()}


def _key(sample: Sample) -> str:
    """Return what tells GPUs apart, in the order of hosts and of GPUs in them."""
    labels = dict(sample.labels)
    return f"{labels.get('Hostname', '')} {labels.get('gpu', ''):0>6} {labels.get('UUID', '')}"


def _reading(values: dict[str, Any]) -> Reading:
    if "xid" in values:
        values["xid"] = int(values["xid"])
    return Reading(**values)
