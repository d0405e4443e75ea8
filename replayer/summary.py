"""What a run amounts to: counts, distributions, the steady-state window, and the hit rate beside its optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from rotoscope.replayer import metrics
from rotoscope.replayer.backlog import FEWEST_JOBS
from rotoscope.replayer.bootstrap import Bounds, mean_interval, percentile_intervals, share_interval
from rotoscope.replayer.client_load import ClientLoad, ClientMeter, client_findings, client_load
from rotoscope.replayer.gates.gate import GateName, Validity
from rotoscope.replayer.goodput import Goodput, goodput_of
from rotoscope.replayer.gpu_telemetry.rows import gpu_findings
from rotoscope.replayer.gpu_telemetry.series import GpuSeries
from rotoscope.replayer.gpu_telemetry.totals import GpuTotals, gpu_totals_of
from rotoscope.replayer.load.order import Order
from rotoscope.replayer.load.plan import EndedBy
from rotoscope.replayer.load.warm_up import WarmUp
from rotoscope.replayer.metrics import Distribution, Interval
from rotoscope.replayer.preflight import NO_CACHED
from rotoscope.replayer.queueing import Queueing, queueing_of
from rotoscope.replayer.results import FORMAT_NAME, FORMAT_VERSION, RequestResult, SessionResult
from rotoscope.replayer.server_metrics.counts import Growth
from rotoscope.replayer.server_metrics.series import ServerSeries
from rotoscope.replayer.server_side import ServerSide, server_side_of
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.timeline import Bin, timeline_of
from rotoscope.replayer.token_rates import isl, osl, tpot_s
from rotoscope.replayer.window import Window, window_of

INTERRUPTED_EXIT_CODE = 130
NOT_WRITTEN = frozenset({"request_results", "optimal_tokens", "timeline"})
"""Fields of a summary that are not part of its file."""
NOTED_EXCESS_OF_BEGUN = 0.1
"""Mean latency of the jobs that begin in the window over that of the jobs in it, less 1, above which rates are too high."""
LEAST_SHARE_OF_WHOLE = 2 / 3
"""Requests that lie in the window as a whole, of those that were sent in it, below which they are the faster ones."""
ONE_PIECE_S = 2e-5
"""Between tokens, below which they came together: no engine computes one so fast."""
LARGEST_SHARE_OF_OTHERS = 0.01
"""Prompt tokens that a server counts beside ours, of ours, above which that is to be explained."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many went how."""

    planned: int
    ok: int
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Prompt tokens found in the server's cache, beside what an infinite cache could have served of the same requests."""

    requests: int
    """Answered requests."""
    requests_without_report: int
    """Of them those without cached tokens, counted as 0 where others have some (vLLM leaves out a 0)."""
    prompt_tokens: int
    cached_tokens: int | None
    """None where the server reported none for any request."""
    hit_rate: float | None
    hit_rate_interval: Bounds | None
    optimal_tokens: int
    optimal_hit_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the server's own counters grew by during the run, whomever it served."""

    family: str
    """Engine by the names of its metrics."""
    unit: str
    """Of what was looked up and found: `tokens`, or `blocks` where the engine counts no tokens."""
    prompt: float | None
    """Looked up in the cache."""
    cached: float | None
    """Found in the engine's own cache."""
    host_cached: float | None = None
    """Found in host memory, where the engine tells."""
    external_cached: float | None
    """Found in another tier: storage, another machine, and host memory where that is not told."""
    hit_rate: float | None
    """Found in any tier / looked up."""
    output_tokens: float | None
    preemptions: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of a replay; `requests` and `optimal_tokens` are for those who ask further and not part of the file."""

    setup: Setup
    interrupted: bool
    duration_s: float
    ended_by: EndedBy = "sessions"
    """Why no more sessions were let in."""
    in_flight_at_end: int | None
    """Sessions that were still there when no more were let in; None where all were to be."""
    sessions: Counts
    requests: Counts
    failures: dict[str, int]
    """Failed requests by kind."""
    isl_mismatches: int
    isl_error: Distribution | None
    """How far the server's counts of prompt tokens are from the planned ones, where they differ in any request."""
    osl_mismatches: int
    unverified: int
    """Answered requests whose lengths the server does not tell."""
    without_ids: int
    """Answered requests whose output ids are not known, so that no later prompt could take them up."""
    isl: Distribution | None
    osl: Distribution | None
    ttft_s: Distribution | None
    ttft_p50_interval_s: Bounds | None
    ttft_p90_interval_s: Bounds | None
    ttfo_s: Distribution | None = None
    """Of answers that have a token that is no reasoning, where the API tells which those are."""
    itl_s: Distribution | None
    tpot_s: Distribution | None
    latency_s: Distribution | None
    job_latency_s: Distribution | None
    mean_job_latency_interval_s: Bounds | None
    schedule_lag_s: Distribution | None
    """How much later than planned sessions were let in, where their times were planned."""
    mean_generating_s: float | None
    """Of the steps that led to each job's last answer; so are the next ones."""
    mean_queue_prefill_s: float | None
    """Of generating: queue and prefill, which only a server can tell apart."""
    mean_decode_s: float | None
    """The rest of generating."""
    mean_waiting_s: float | None
    mean_tool_s: float | None = None
    """Of waiting."""
    mean_client_s: float | None = None
    """Of waiting: recorded waits that are no tools."""
    mean_overhead_s: float | None = None
    """Of waiting: the replay itself."""
    mean_join_wait_s: float | None = None
    """How long branches that were done waited for their siblings, added up in each job; beside its latency."""
    window: Window | None
    cache: Cache
    client: ClientLoad = field(default_factory=ClientLoad)
    order: Order | None = None
    """How far the order of requests is from the planned one; None in a closed loop."""
    warm_up: WarmUp | None = None
    """What was preloaded; None where nothing was to be."""
    goodput: Goodput | None = None
    """None where no limits were given."""
    counted: Counted | None = None
    """None where the server has no metrics, or they began anew during the run."""
    queueing: Queueing | None = None
    """None where the server does not tell queue and prefill apart."""
    server: ServerSide | None = None
    gpu_telemetry: GpuTotals | None = None
    """None where no GPU tells of itself."""
    validity: Validity | None = None
    """What the gates say; None where they were not asked."""
    notes: tuple[str, ...] = ()
    """What was said to people during the run and about its results."""
    request_results: tuple[RequestResult, ...] = field(default=(), repr=False)
    """In the order in which the requests ended."""
    optimal_tokens: tuple[int, ...] = field(default=(), repr=False)
    """The realised optimum of each of them."""
    timeline: tuple[Bin, ...] = field(default=(), repr=False)
    """The run over time, in a file of its own."""

    @property
    def exit_code(self) -> int:
        """0: done; 3: not valid; 1: no session was completed; 130: interrupted."""
        if self.interrupted:
            return INTERRUPTED_EXIT_CODE
        if not self.sessions.ok:
            return 1
        is_valid = self.validity.valid if self.validity else not self.sessions.failed
        return 0 if is_valid else 3

    @property
    def is_complete(self) -> bool:
        """Whether every session that was planned was completed."""
        return self.sessions.ok == self.sessions.planned

    def has_failed(self, gate: GateName) -> bool:
        """Whether a gate says that the run is not valid."""
        return self.validity is not None and any(one.name == gate for one in self.validity.failed)

    def as_dict(self) -> dict[str, object]:
        """Return the content of summary.json."""
        values = asdict(replace(self, request_results=(), optimal_tokens=(), timeline=()))
        for name in NOT_WRITTEN:
            del values[name]
        return {"format": {"name": FORMAT_NAME, "version": FORMAT_VERSION}, **values}


def summarise(
    setup: Setup,
    *,
    requests: Sequence[RequestResult],
    optimal_tokens: Sequence[int],
    sessions: Sequence[SessionResult],
    planned_requests: int,
    planned_sessions: int | None = None,
    without_ids: int,
    interrupted: bool,
    duration_s: float,
    ended_by: EndedBy = "sessions",
    in_flight_at_end: int | None = None,
    counted: Growth | None = None,
    series: ServerSeries | None = None,
    gpus: GpuSeries | None = None,
    meter: ClientMeter | None = None,
    order: Order | None = None,
    warm_up: WarmUp | None = None,
) -> Summary:
    """Summarise a run; `optimal_tokens` is the realised optimum of each request.

    `planned_sessions` are those let in, where there was a duration; None takes all of the setup.
    """
    answered = [one for one in requests if one.status == "ok"]
    done = [one for one in sessions if one.status == "ok"]
    job_latencies_s = [one.latency_s for one in done if one.latency_s is not None]
    session_lag_s = metrics.distribution([one.lag_s for one in sessions if one.lag_s is not None])
    ttft_p50, ttft_p90 = _ttft_intervals(answered, seed=setup.seed)
    window = None if interrupted else window_of(setup, sessions, requests)
    steady = Interval(window.opens_s, window.closes_s) if window else None
    credit = window.credit if window else metrics.share_in_window
    queue_prefill_s = _mean_of(done, lambda one: one.queue_prefill_s)
    return Summary(
        setup=setup,
        interrupted=interrupted,
        duration_s=round(duration_s, 6),
        ended_by=ended_by,
        in_flight_at_end=in_flight_at_end,
        sessions=_counts(
            [one.status for one in sessions], setup.sessions if planned_sessions is None else planned_sessions
        ),
        requests=_counts([one.status for one in requests], planned_requests),
        failures=dict(Counter(one.failure.value for one in requests if one.failure)),
        isl_mismatches=sum(one.isl_mismatch for one in requests),
        isl_error=_isl_error(answered),
        osl_mismatches=sum(one.osl_mismatch for one in requests),
        unverified=sum(one.prompt_tokens is None or one.completion_tokens is None for one in answered),
        without_ids=without_ids,
        isl=_distribution(answered, isl),
        osl=_distribution(answered, lambda one: one.completion_tokens),
        ttft_s=_distribution(answered, lambda one: one.ttft_s),
        ttft_p50_interval_s=ttft_p50,
        ttft_p90_interval_s=ttft_p90,
        ttfo_s=_distribution(answered, lambda one: one.ttfo_s),
        itl_s=_distribution(answered, lambda one: one.itl_s),
        tpot_s=_distribution(answered, tpot_s),
        latency_s=_distribution(answered, lambda one: one.latency_s),
        job_latency_s=metrics.distribution(job_latencies_s),
        mean_job_latency_interval_s=mean_interval(job_latencies_s, seed=setup.seed),
        schedule_lag_s=session_lag_s,
        mean_generating_s=_mean_of(done, lambda one: one.generating_s),
        mean_queue_prefill_s=queue_prefill_s,
        mean_decode_s=_mean_of(done, lambda one: one.decode_s),
        mean_waiting_s=_mean_of(done, lambda one: one.waiting_s),
        mean_tool_s=_mean_of(done, lambda one: one.tool_s),
        mean_client_s=_mean_of(done, lambda one: one.client_s),
        mean_overhead_s=_mean_of(done, lambda one: one.overhead_s),
        mean_join_wait_s=_mean_of(done, lambda one: one.join_wait_s),
        window=window,
        cache=_cache(requests, optimal_tokens, seed=setup.seed),
        client=client_load(
            session_lag_s=session_lag_s, request_lag_s=_distribution(requests, lambda one: one.lag_s), meter=meter
        ),
        order=order,
        warm_up=warm_up,
        goodput=goodput_of(setup, requests, steady, credit=credit),
        counted=_counted(counted),
        queueing=queueing_of(counted, requests, job_queue_prefill_s=queue_prefill_s),
        server=server_side_of(
            requests,
            optimal_tokens,
            window=steady,
            duration_s=duration_s,
            series=series,
            max_batch=setup.max_batch,
        ),
        gpu_telemetry=gpu_totals_of(
            gpus,
            requests,
            window=steady,
            duration_s=duration_s,
            jobs=window.jobs if window else len(done),
            credit=credit,
        )
        if gpus
        else None,
        request_results=tuple(requests),
        optimal_tokens=tuple(optimal_tokens),
        timeline=tuple(timeline_of(requests, optimal_tokens, series.samples if series else (), duration_s=duration_s)),
    )


def findings(summary: Summary) -> Iterator[str]:
    """Yield what a reader of the numbers must know: what is missing among them, and what makes them doubtful.

    What a gate that failed says is not said again.
    """
    setup, cache = summary.setup, summary.cache
    if setup.simulated:
        yield "measured on a simulator: its times are modelled, no model was computed"
    no_rates = why_no_rates(summary)
    if no_rates and not summary.has_failed("jobs"):
        yield no_rates
    if not no_rates and setup.gpus_assumed:
        yield "jobs/h/GPU takes the server to have one GPU: give --gpus"
    if summary.window:
        yield from _of_few_sessions(summary.window, has_failed=summary.has_failed("jobs"))
    yield from _overload(summary.window)
    if setup.concurrency and setup.duration_s and not summary.interrupted and summary.duration_s < setup.duration_s:
        yield f"all {setup.sessions:,} sessions ended before the duration was over: give more --sessions"
    if setup.until_ci is not None and summary.ended_by not in ("interval", "interruption"):
        yield from _not_known(summary.window, setup.until_ci)
    if not summary.has_failed("lag"):
        yield from client_findings(summary.client, session_lag_s=summary.schedule_lag_s)
    if summary.sessions.failed and not summary.has_failed("errors"):
        yield f"{summary.sessions.failed:,} of {summary.sessions.ok + summary.sessions.failed:,} sessions failed"
    if summary.isl_error and not summary.has_failed("prompt-lengths"):
        off = f"{summary.isl_error.mean:,.1f} off on average, {summary.isl_error.max:,.0f} at most"
        yield f"{summary.isl_mismatches} requests: the server counted another number of prompt tokens than planned, {off}"
    if summary.osl_mismatches and not summary.has_failed("output-lengths"):
        yield f"{summary.osl_mismatches} requests: the answer has another number of tokens than were asked for"
    if summary.unverified:
        yield f"{summary.unverified} requests: the server does not tell their lengths, which are taken as planned"
    if cache.requests and cache.cached_tokens is None:
        yield NO_CACHED
    if not setup.simulated:
        yield from _in_one_piece(summary.request_results)
    if summary.gpu_telemetry:
        yield from gpu_findings(summary.gpu_telemetry, gpus=setup.gpus)
    yield from _others(summary)
    if summary.counted is not None and summary.counted.preemptions:
        yield f"{summary.counted.preemptions:,.0f} times a request was set back because the server's cache was full"


def too_short(window: Window) -> str:
    """Say that a closed loop's window is too short for how long some of its jobs take."""
    return (
        f"jobs/h may be {100 * (window.excess_of_begun or 0.0):.0f} % too high or more: a job that begins in the window "
        f"takes {window.mean_latency_of_begun_s or 0.0:,.3f} s on average, but the time in it is of jobs of "
        f"{window.mean_job_latency_s:,.3f} s, because long ones are rare there yet: give more --sessions"
    )


def _of_few_sessions(window: Window, *, has_failed: bool) -> Iterator[str]:
    """Yield a note where a window is too short for its jobs, which a gate that has failed says itself, or requests."""
    sent = window.tokens.sent_requests
    if not has_failed and (window.excess_of_begun or 0.0) > NOTED_EXCESS_OF_BEGUN:
        yield too_short(window)
    if sent is not None and window.tokens.whole_requests < LEAST_SHARE_OF_WHOLE * sent:
        yield (
            f"tokens/s/user is of the {window.tokens.whole_requests:,} of {sent:,} requests sent in the window that ended "
            "in it, the faster ones: give more --sessions"
        )


def _not_known(window: Window | None, wanted: float) -> Iterator[str]:
    """Yield a note where jobs/h is known less well than was wanted."""
    half_width = window.jobs_per_h_per_gpu_half_width if window else None
    if half_width is None or half_width > wanted:
        known = "" if half_width is None else f" but to {100 * half_width:.1f} %"
        yield f"jobs/h is not known to {100 * wanted:g} %{known}: give more --sessions or a longer --duration"


def _overload(window: Window | None) -> Iterator[str]:
    """Yield a note where sessions arrived faster than they were done, or nobody can say."""
    loop = window.open_loop if window else None
    if window is None or loop is None:
        return
    if loop.overloaded is None:
        yield f"too few sessions to tell whether the server keeps up: {FEWEST_JOBS} must start in the window and be done"
    elif loop.overloaded:
        yield (
            f"overloaded: {loop.offered_per_h_per_gpu:,.1f} sessions arrive in an hour and GPU and "
            f"{window.jobs_per_h_per_gpu:,.1f} end, and a session takes {loop.latency_growth:,.2f} s longer for each "
            "second that it starts later: latencies are those of a run of this length"
        )


def why_no_rates(summary: Summary) -> str | None:
    """Return why a run has no rates; None where it has some."""
    concurrency = summary.setup.concurrency
    if summary.interrupted:
        return "interrupted: no rates, because there is no steady-state window"
    if not summary.sessions.ok:
        return "no rates: no session was completed"
    if concurrency is None and summary.window is None:
        return (
            "no rates: the longest sessions take more than half the time over which all arrive: "
            "let them arrive for longer, at a lower rate, or with shorter gaps by --gap-cap"
        )
    if concurrency is not None and summary.sessions.planned < 3 * concurrency:
        return f"no rates: a steady-state window takes at least {3 * concurrency} sessions at this concurrency"
    return None if summary.window else "no rates: too few sessions behind those that began on an emptier server"


def _in_one_piece(requests: Sequence[RequestResult]) -> Iterator[str]:
    """Yield a note where most answers did not come token by token."""
    several = [one for one in requests if one.status == "ok" and osl(one) > 1]
    together = sum((one.itl_s or 0.0) < ONE_PIECE_S for one in several)
    if 2 * together > len(several):
        yield (
            f"{together:,} of {len(several):,} answers of several tokens came in one piece: is something buffering them? "
            "Their TTFT is that of the whole answer, and they break no limit of ITL"
        )


def _others(summary: Summary) -> Iterator[str]:
    """Yield a note where the server counts clearly more prompt tokens than its answers have."""
    counted, told = summary.counted, summary.cache.prompt_tokens
    if counted is None or counted.unit != "tokens" or counted.prompt is None or not told:
        return
    more = counted.prompt - told
    if more > LARGEST_SHARE_OF_OTHERS * told:
        failed = "it counts requests that failed, too, " if summary.requests.failed + summary.requests.cancelled else ""
        yield (
            f"the server's counters tell {more:,.0f} prompt tokens beside the {told:,} of its answers: "
            f"{failed}it served others too, or looked some prompts up again"
        )


def _counts(statuses: Sequence[str], planned: int) -> Counts:
    found = Counter(statuses)
    return Counts(planned, found["ok"], found["failed"], found["cancelled"])


def _distribution(
    requests: Sequence[RequestResult], value: Callable[[RequestResult], float | None]
) -> Distribution | None:
    return metrics.distribution([number for one in requests if (number := value(one)) is not None])


def _isl_error(requests: Sequence[RequestResult]) -> Distribution | None:
    errors = [abs(one.prompt_tokens - one.planned_prompt_tokens) for one in requests if one.prompt_tokens is not None]
    return metrics.distribution(errors) if any(errors) else None


def _mean_of(sessions: Sequence[SessionResult], value: Callable[[SessionResult], float | None]) -> float | None:
    values = [seconds for one in sessions if (seconds := value(one)) is not None]
    return sum(values) / len(values) if values else None


def _counted(growth: Growth | None) -> Counted | None:
    if growth is None or growth.restarted or growth.prompt is None:
        return None
    return Counted(
        family=growth.family,
        unit=growth.unit,
        prompt=growth.prompt,
        cached=growth.cached,
        host_cached=growth.host_cached,
        external_cached=growth.external_cached,
        hit_rate=growth.hit_rate,
        output_tokens=growth.output_tokens,
        preemptions=growth.preemptions,
    )


def _cache(requests: Sequence[RequestResult], optimal_tokens: Sequence[int], *, seed: int) -> Cache:
    answered = [(one, optimum) for one, optimum in zip(requests, optimal_tokens, strict=True) if one.status == "ok"]
    reported = [one.cached_tokens for one, _ in answered if one.cached_tokens is not None]
    prompt_tokens = sum(isl(one) for one, _ in answered)
    optimal = sum(optimum for _, optimum in answered)
    cached = sum(reported) if reported else None
    return Cache(
        requests=len(answered),
        requests_without_report=len(answered) - len(reported),
        prompt_tokens=prompt_tokens,
        cached_tokens=cached,
        hit_rate=None if cached is None else metrics.hit_rate(cached, prompt_tokens),
        hit_rate_interval=None if cached is None else _hit_rate_interval([one for one, _ in answered], seed=seed),
        optimal_tokens=optimal,
        optimal_hit_rate=metrics.hit_rate(optimal, prompt_tokens),
    )


def _hit_rate_interval(answered: Sequence[RequestResult], *, seed: int) -> Bounds | None:
    cached: Counter[int] = Counter()
    prompts: Counter[int] = Counter()
    for one in answered:
        cached[one.session] += one.cached_tokens or 0
        prompts[one.session] += isl(one)
    return share_interval([cached[session] for session in prompts], [*prompts.values()], seed=seed)


def _ttft_intervals(answered: Sequence[RequestResult], *, seed: int) -> tuple[Bounds | None, Bounds | None]:
    timed = [(one.ttft_s, one.session) for one in answered if one.ttft_s is not None]
    found = percentile_intervals([ttft for ttft, _ in timed], [session for _, session in timed], (50, 90), seed=seed)
    return (found[0], found[1]) if found else (None, None)
