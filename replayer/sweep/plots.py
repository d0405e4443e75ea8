"""Pictures of a sweep as SVG: the Pareto frontier, and the hit rate beside its optimum; they need matplotlib.

A series is one combination of settings, its points are labelled with these and the concurrency. Numbers carry their 95 %
intervals. What was simulated says so in the picture. The same sweep gives the same bytes with the same matplotlib.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from rotoscope.replayer.bootstrap import Bounds
from rotoscope.replayer.pareto import Place, on_frontier, staircase
from rotoscope.replayer.sweep.rows import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Series: TypeAlias = tuple[str, list[Measured]]

MOST_LABELS = 40
"""Of more points only those on the frontier are labelled."""
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rotoscope",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
_SIZE_INCHES = (7.5, 5.0)
_BARS: dict[str, Any] = {"elinewidth": 1, "capsize": 2.5}
_INVALID = "#9a9a9a"
_NEAR = 0.03
"""Share of the largest number within which labels would cover each other."""
_NOTHING_BUT_THE_PICTURE = {"Date": None, "Creator": None, "Format": None, "Type": None}


def has_matplotlib() -> bool:
    """Return whether pictures can be drawn here."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def pareto_svg(measured: Sequence[Measured], settings: Sequence[str]) -> bytes | None:
    """Return jobs/h/user against jobs/h/GPU with the frontier as a staircase; None where no point has rates."""
    drawn = [one for one in measured if one.summary.window is not None]
    if not drawn:
        return None
    figure, axes = _figure()
    _draw_frontier(axes, [one.place for one in measured if one.place is not None])
    for number, (name, points) in enumerate(_series([one for one in drawn if one.place], settings)):
        _draw_rates(axes, points, label=name, color=f"C{number % 10}", line="-")
    invalid = [one for one in drawn if not one.place]
    if invalid:
        _draw_rates(axes, invalid, label="not valid", color=_INVALID, line="")
    _label_points(axes, measured, settings)
    axes.set_xlabel("jobs/h/user, 95 % interval")
    axes.set_ylabel("jobs/h/GPU, 95 % interval")
    axes.margins(0.12)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    title = "Whole jobs: what a user gets against what a GPU gives"
    return _finished(figure, axes, title, measured, labels=_labels_say(settings))


def hit_rate_svg(measured: Sequence[Measured], settings: Sequence[str]) -> bytes | None:
    """Return the measured hit rate against the concurrency beside its optimum; None where no server told it."""
    told = [one for one in measured if one.summary.cache.hit_rate is not None]
    if not told:
        return None
    figure, axes = _figure()
    for number, (name, points) in enumerate(_series(told, settings)):
        color = f"C{number % 10}"
        concurrency = [one.point.concurrency for one in points]
        optimum = [one.summary.cache.optimal_hit_rate or 0.0 for one in points]
        axes.plot(concurrency, optimum, color=color, linestyle=":", linewidth=1.2)
        rates = [one.summary.cache.hit_rate or 0.0 for one in points]
        bars = _bars(rates, [one.summary.cache.hit_rate_interval for one in points])
        axes.errorbar(concurrency, rates, yerr=bars, color=color, marker="o", markersize=5, label=name, **_BARS)
    axes.plot([], [], color="black", linestyle=":", linewidth=1.2, label="optimum of the same requests")
    ticks = sorted({one.point.concurrency for one in told})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 1)
    axes.set_xlabel("sessions in flight")
    axes.set_ylabel("hit rate, cached / prompt tokens")
    return _finished(figure, axes, "Prefix cache: measured hit rate and its optimum", measured)


def _figure() -> tuple[Any, Axes]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        return figure, figure.add_subplot()


def _series(measured: Sequence[Measured], settings: Sequence[str]) -> Iterator[Series]:
    """Yield the points of each combination of settings, those with few sessions in flight first."""

    def combination(one: Measured) -> str:
        return ", ".join(f"{name} {one.point.settings[name]}" for name in settings) or "measured"

    for name, points in groupby(measured, combination):
        yield name, sorted(points, key=lambda one: one.point.concurrency)


def _draw_frontier(axes: Axes, places: Sequence[Place]) -> None:
    corners = staircase(places)
    if not corners:
        return
    across = [(0.0, corners[0][1]), *corners, (corners[-1][0], 0.0)]
    axes.plot(
        *zip(*across, strict=True), color="black", linewidth=1.2, linestyle="--", label="Pareto frontier", zorder=1
    )


def _draw_rates(axes: Axes, points: Sequence[Measured], *, label: str, color: str, line: str) -> None:
    windows = [window for one in points if (window := one.summary.window) is not None]
    users, gpus = [one.jobs_per_h_per_user for one in windows], [one.jobs_per_h_per_gpu for one in windows]
    axes.errorbar(
        users,
        gpus,
        xerr=_bars(users, [one.jobs_per_h_per_user_interval for one in windows]),
        yerr=_bars(gpus, [one.jobs_per_h_per_gpu_interval for one in windows]),
        color=color,
        linestyle=line,
        linewidth=1,
        marker="o" if line else "x",
        markersize=5,
        label=label,
        **_BARS,
    )


def _label_points(axes: Axes, measured: Sequence[Measured], settings: Sequence[str]) -> None:
    """Label points, those on the frontier first; one that would cover another's label is counted there instead."""
    frontier = on_frontier([one.place for one in measured])
    placed = [
        (not is_on, one, (window.jobs_per_h_per_user, window.jobs_per_h_per_gpu))
        for one, is_on in zip(measured, frontier, strict=True)
        if (window := one.summary.window) is not None
    ]
    largest = (max(place[0] for *_, place in placed), max(place[1] for *_, place in placed))
    labels: dict[Place, list[Measured]] = {}
    for is_off, one, place in sorted(placed, key=lambda item: item[0]):
        near = next((other for other in labels if _is_near(place, other, largest)), place)
        if near in labels or not is_off or len(placed) <= MOST_LABELS:
            labels.setdefault(near, []).append(one)
    bold = {place for is_off, _, place in placed if not is_off}
    for place, points in labels.items():
        text = _label(points[0], settings) + (f" +{len(points) - 1}" if len(points) > 1 else "")
        style: dict[str, Any] = {"fontweight": "bold"} if place in bold else {"color": "#666666"}
        axes.annotate(text, place, xytext=(5, 4), textcoords="offset points", fontsize=8, **style)


def _labels_say(settings: Sequence[str]) -> str:
    names = ", ".join((*settings, "sessions in flight"))
    return f"labels: ({names})" if settings else f"labels: {names}"


def _label(one: Measured, settings: Sequence[str]) -> str:
    values = [*(one.point.settings[name] for name in settings), str(one.point.concurrency)]
    return f"({', '.join(values)})" if settings else values[0]


def _is_near(one: Place, other: Place, largest: Place) -> bool:
    return all(abs(a - b) <= _NEAR * most for a, b, most in zip(one, other, largest, strict=True))


def _bars(values: Sequence[float], intervals: Sequence[Bounds | None]) -> list[list[float]]:
    """Return how far each interval goes below and above its number; nothing where there is none."""
    low = [max(0.0, value - one.low) if one else 0.0 for value, one in zip(values, intervals, strict=True)]
    high = [max(0.0, one.high - value) if one else 0.0 for value, one in zip(values, intervals, strict=True)]
    return [low, high]


def _finished(figure: Any, axes: Axes, title: str, measured: Sequence[Measured], *, labels: str | None = None) -> bytes:
    from matplotlib import rc_context

    is_simulated = any(one.summary.setup.simulated for one in measured)
    axes.set_title(title, loc="left", fontsize=11)
    if is_simulated:
        axes.text(
            0.5,
            0.5,
            "simulated",
            transform=axes.transAxes,
            ha="center",
            va="center",
            fontsize=44,
            color="#ededed",
            zorder=0,
        )
        axes.set_title("simulated: times are modelled", loc="right", fontsize=9, color="#b00020")
    out = io.BytesIO()
    with rc_context(_STYLE):
        axes.legend(loc="best", fontsize=8, title=labels, title_fontsize=8, alignment="left")
        figure.savefig(out, format="svg", metadata=_NOTHING_BUT_THE_PICTURE)
    return out.getvalue()
