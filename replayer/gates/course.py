"""Gates of how a run went: did sessions fail, did the client keep up, was there enough to measure?"""

from __future__ import annotations

from rotoscope.replayer.client_load import FEWEST_VALUES, LARGEST_LAG_S, client_findings
from rotoscope.replayer.gates.evidence import Evidence
from rotoscope.replayer.gates.gate import Gate, at_least, at_most, unchecked
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.summary import too_short, why_no_rates

LARGEST_SHARE_FAILED = 0.01
"""Of sessions: what a failed one did not do relieves the server, and rates count none of it."""
FEWEST_JOBS = 10.0
"""In the window: intervals of fewer sessions hold the true number clearly less often than they say (docs/metrics.md)."""
LARGEST_EXCESS_OF_BEGUN = 0.5
"""Of the mean latency of jobs that begin in the window over the mean in it; docs/metrics.md tells what it rests on."""


def least_sessions(concurrency: int) -> int:
    """Return how many sessions a closed loop takes for enough jobs in its window.

    C of them fill it and C more end before the window opens, and as many again where sessions end within a ramp; then
    there must be C behind that, and enough, of which two are for those that the borders cut.
    """
    return 3 * concurrency + max(concurrency, int(FEWEST_JOBS) + 2)


def errors(evidence: Evidence) -> Gate:
    """Check the share of sessions that failed; those that an interruption cut off have not."""
    counts = evidence.summary.sessions
    ended = counts.ok + counts.failed
    if not ended:
        return unchecked("errors", "no session ended")
    says = f"{counts.failed:,} of {ended:,} sessions failed"
    return at_most("errors", counts.failed / ended, LARGEST_SHARE_FAILED, says)


def lag(evidence: Evidence) -> Gate:
    """Check that the client kept up: how late it let sessions in, and how late its event loop was."""
    summary = evidence.summary
    late_s = [
        one.p99 for one in (summary.schedule_lag_s, summary.client.loop_delay_s) if one and one.count >= FEWEST_VALUES
    ]
    if summary.client.is_saturated:
        (says,) = client_findings(summary.client, session_lag_s=summary.schedule_lag_s)
        return Gate(name="lag", passed=False, measured=_highest(late_s), limit=LARGEST_LAG_S, says=says)
    if not late_s:
        why = f"fewer than {FEWEST_VALUES} planned starts and ticks of the client have no 99th percentile"
        return unchecked("lag", why)
    return Gate(name="lag", passed=True, measured=_highest(late_s), limit=LARGEST_LAG_S)


def jobs(evidence: Evidence) -> Gate:
    """Check that there are enough jobs in the steady-state window of a run for which a load was asked, long ones too."""
    summary = evidence.summary
    if not _is_load_asked(summary.setup):
        return unchecked("jobs", "no load was asked for by --concurrency, --duration or --rate: a check, no benchmark")
    window = summary.window
    excess = window.excess_of_begun if window else None
    if window and excess is not None and excess > LARGEST_EXCESS_OF_BEGUN:
        return at_most("jobs", excess, LARGEST_EXCESS_OF_BEGUN, too_short(window))
    count = window.jobs if window else 0.0
    few = f"{count:,.1f} jobs lie in the steady-state window, fewer than {FEWEST_JOBS:.0f}: give more --sessions"
    return at_least("jobs", count, FEWEST_JOBS, why_no_rates(summary) or few)


def _is_load_asked(setup: Setup) -> bool:
    return not setup.concurrency_assumed or setup.duration_s is not None or setup.arrivals is not None


def _highest(values: list[float]) -> float | None:
    return round(max(values), 6) if values else None
