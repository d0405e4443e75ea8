"""A search as text: a row a probe, and the answer with what is certain of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rotoscope.replayer.slo.objectives import Objective, Reached
from rotoscope.replayer.slo.run import Probe, Searched
from rotoscope.traces.phrases import counted

Cells: TypeAlias = tuple[str, ...]


def headings(objectives: Sequence[Objective]) -> Cells:
    """Return the headings of a table of probes: each objective with its limit."""
    return ("agents", "run", *(f"{one.name} <= {_time(one.limit_s)}" for one in objectives), "valid", "met")


def probe_rows(searched: Searched) -> Iterator[Cells]:
    """Yield a row for each probe, few agents first."""
    for one in sorted(searched.probes, key=lambda probe: (probe.concurrency, probe.repeat)):
        cells = (_reached(part) for part in one.reached)
        yield str(one.concurrency), str(one.repeat), *cells, "yes" if one.is_valid else "no", _outcome(one)


def answer(searched: Searched, *, most: int) -> Iterator[str]:
    """Yield what the search found, in sentences."""
    border = searched.border
    if border is None:
        yield "interrupted: the same command goes on where it was"
        return
    if border.met is not None:
        yield f"{_agents_meet(border.met)} the objectives: {searched.outcome(border.met)}"
    if border.unmet is None:
        yield f"more than {most} were not tried: give more with --most"
    elif not searched.is_known(border.unmet):
        runs = searched.at(border.unmet)
        invalid = sum(not one.is_valid for one in runs)
        yield f"of {border.unmet} it is not known: {invalid} of {counted(len(runs), 'run')} not valid, see their summaries"
    elif border.met is None:
        yield f"not even {_agents_meet(border.unmet)} the objectives: {searched.outcome(border.unmet)}"
    else:
        yield f"{border.unmet} do not: {searched.outcome(border.unmet)}"
    near = [one for one in searched.probes if one.concurrency in (border.met, border.unmet)]
    if any(one.is_valid and not one.is_sure for one in near):
        yield "near this border the limit lies within the 95 % interval of a run: one agent more or less is not certain"


def _agents_meet(number: int) -> str:
    return f"{number} agent meets" if number == 1 else f"{number} agents meet"


def _outcome(probe: Probe) -> str:
    if not probe.is_valid:
        return "no"
    return ("yes" if probe.is_met else "no") + ("" if probe.is_sure else ", not sure")


def _reached(one: Reached) -> str:
    if one.value_s is None:
        return "nothing measured"
    bounds = one.interval_s
    return _time(one.value_s) + (f" ({_time(bounds.low)} to {_time(bounds.high)})" if bounds else "")


def _time(time_s: float) -> str:
    return f"{time_s:,.3f} s" if time_s >= 1 else f"{1000 * time_s:,.1f} ms"
