"""All gates of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from rotoscope.replayer.gates.cache import above_optimum, below_optimum, counters
from rotoscope.replayer.gates.course import errors, jobs, lag
from rotoscope.replayer.gates.evidence import Evidence
from rotoscope.replayer.gates.gate import GATES, Gate, GateName, Validity, unchecked
from rotoscope.replayer.gates.lengths import output_lengths, prompt_lengths

_CHECKS: Mapping[GateName, Callable[[Evidence], Gate]] = MappingProxyType(
    {
        "output-lengths": output_lengths,
        "prompt-lengths": prompt_lengths,
        "errors": errors,
        "lag": lag,
        "jobs": jobs,
        "above-optimum": above_optimum,
        "below-optimum": below_optimum,
        "counters": counters,
    }
)


def check_gates(evidence: Evidence, *, skipped: Collection[GateName] = ()) -> Validity:
    """Return what all gates say of a run; those that are skipped are in it too."""
    return Validity.of(
        unchecked(name, "skipped, as asked for by --skip-gate") if name in skipped else _CHECKS[name](evidence)
        for name in GATES
    )
