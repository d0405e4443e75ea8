"""A summary as text: rows of cells for tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from rotoscope.replayer.bootstrap import Bounds
from rotoscope.replayer.gates.verdict import validity_row
from rotoscope.replayer.goodput import Goodput
from rotoscope.replayer.gpu_telemetry.rows import gpu_rows
from rotoscope.replayer.load.warm_up import WarmUp
from rotoscope.replayer.metrics import Distribution
from rotoscope.replayer.server_rows import queueing_rows, server_rows, timeline_rows
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.student import CONFIDENCE_PERCENT
from rotoscope.replayer.summary import Cache, Counted, Counts, Summary
from rotoscope.replayer.token_rates import TokenRates
from rotoscope.replayer.window import OpenLoop, Window

Row: TypeAlias = tuple[str, ...]

DISTRIBUTION_HEADINGS: Row = ("", "mean", "p50", "p90", "p99", "max")


def outcome_rows(summary: Summary) -> Iterator[Row]:
    """Yield what happened and the numbers of the whole run: name, value, definition."""
    setup = summary.setup
    if summary.validity:
        yield validity_row(summary.validity)
    yield "model", setup.model, "simulated" if setup.simulated else ""
    yield from _identity_rows(setup)
    if setup.template:
        overhead = f"template {setup.template.head} + {setup.template.tail} tokens, {setup.template.back} between turns"
        yield "prompts", f"{setup.words} words", f"{setup.api}, {overhead}, from {setup.tokens_from}"
    if summary.warm_up:
        yield "warm-up", f"{summary.warm_up.tokens:,} tokens", _preloaded(summary.warm_up)
    yield "sessions", _counts(summary.sessions), f"of {_what(setup)}, {_load(setup)}{_end(summary)}"
    yield "requests", _counts(summary.requests), ", ".join(f"{n} {kind}" for kind, n in summary.failures.items())
    if summary.order:
        inverted = f"{summary.order.inverted:,} of {summary.order.pairs:,} pairs of requests of different sessions were swapped"
        yield "  in order", f"{1 - summary.order.share:.4f}", inverted
    yield from _cache_rows(
        summary.cache, summary.counted, f"profile {setup.profile}, {_plural(setup.block_size, 'token')} a block"
    )
    if summary.ttft_s:
        yield from _ttft_rows(summary.ttft_s, summary.ttft_p50_interval_s, summary.ttft_p90_interval_s)
    if summary.job_latency_s:
        yield from _job_rows(summary, summary.job_latency_s)
    if summary.window:
        yield from _window_rows(summary.window, gpus=setup.gpus)
        yield from _token_rows(summary.window.tokens)
    if summary.goodput:
        yield from _goodput_rows(summary.goodput, limits=str(setup.limits))
    if summary.server:
        yield from server_rows(summary.server)
    yield from timeline_rows(summary.timeline)
    if summary.gpu_telemetry:
        yield from gpu_rows(summary.gpu_telemetry)
    if summary.ttft_p50_interval_s or summary.mean_job_latency_interval_s:
        yield "intervals", f"{CONFIDENCE_PERCENT} %", "bootstrap over sessions"


def distribution_rows(summary: Summary) -> Iterator[Row]:
    """Yield mean and percentiles of what was measured a request and a job, under `DISTRIBUTION_HEADINGS`."""
    yield from _distribution("ISL, tokens", summary.isl, "{:,.0f}")
    yield from _distribution("  error of ISL", summary.isl_error, "{:,.1f}")
    yield from _distribution("OSL, tokens", summary.osl, "{:,.0f}")
    yield from _distribution("TTFT, ms", summary.ttft_s, "{:,.1f}", scale=1000)
    yield from _distribution("TTFO, ms", summary.ttfo_s, "{:,.1f}", scale=1000)
    yield from _distribution("ITL, ms", summary.itl_s, "{:,.2f}", scale=1000)
    yield from _distribution("TPOT, ms", summary.tpot_s, "{:,.2f}", scale=1000)
    yield from _distribution("latency, ms", summary.latency_s, "{:,.1f}", scale=1000)
    yield from _distribution("job latency, s", summary.job_latency_s, "{:,.3f}")
    yield from _distribution("schedule lag, ms", summary.schedule_lag_s, "{:,.1f}", scale=1000)
    yield from _distribution("request lag, ms", summary.client.request_lag_s, "{:,.1f}", scale=1000)
    yield from _distribution("loop delay, ms", summary.client.loop_delay_s, "{:,.1f}", scale=1000)


def _identity_rows(setup: Setup) -> Iterator[Row]:
    if setup.server_version is not None:
        yield "server", f"{setup.engine} {setup.server_version}", "the version that it tells"
    if setup.corpus_sha256 is not None:
        called = f"{setup.corpus_name} {setup.corpus_version}" if setup.corpus_name else "without a name"
        yield "corpus", called, f"sha256 {setup.corpus_sha256[:12]}"


def _job_rows(summary: Summary, latency_s: Distribution) -> Iterator[Row]:
    bounds = _bounds(summary.mean_job_latency_interval_s, "{:,.3f}")
    yield "job latency", _seconds(latency_s.mean) + bounds, "mean over completed sessions"
    yield "  generating", _seconds(summary.mean_generating_s), "on the path to the last answer"
    apart = "" if summary.queueing or summary.interrupted else "; the server does not tell them apart"
    yield "    queue, prefill", _seconds(summary.mean_queue_prefill_s), f"no token has come{apart}"
    yield from queueing_rows(summary.queueing)
    yield "    decode", _seconds(summary.mean_decode_s), "an answer arrives"
    yield "  waiting", _seconds(summary.mean_waiting_s), "the rest of that path"
    yield "    tools", _seconds(summary.mean_tool_s), ""
    yield "    client", _seconds(summary.mean_client_s), "recorded waits that are no tools"
    yield "    overhead", _seconds(summary.mean_overhead_s), "of this replay"
    if summary.mean_join_wait_s:
        yield "  join wait", _seconds(summary.mean_join_wait_s), "not in it: done branches, for their siblings"


def _preloaded(warm_up: WarmUp) -> str:
    prefixes = f"{warm_up.prefixes} shared prefix{'' if warm_up.prefixes == 1 else 'es'}"
    return f"{prefixes}, sent {_plural(warm_up.times, 'time')} before the run"


def _what(setup: Setup) -> str:
    if setup.fixed is None:
        return _plural(setup.traces, "trace")
    return f"one request of {setup.fixed.isl:,} + {_plural(setup.fixed.osl, 'token')}"


def _load(setup: Setup) -> str:
    if setup.arrivals is None:
        return f"concurrency {setup.concurrency}"
    return f"{setup.arrivals} arrivals" + (f", {setup.rate_per_h:,.10g}/h" if setup.rate_per_h else "")


def _end(summary: Summary) -> str:
    if summary.in_flight_at_end is None:
        return ""
    match summary.ended_by:
        case "interval":
            return f", {summary.in_flight_at_end} in flight when jobs/h was known"
        case "duration":
            return f", {summary.in_flight_at_end} in flight after {summary.setup.duration_s:,g} s"
        case _:
            return ""


def _cache_rows(cache: Cache, counted: Counted | None, profile: str) -> Iterator[Row]:
    if not cache.requests:
        return
    tokens = f"of {cache.prompt_tokens:,} prompt tokens"
    yield (
        "hit rate",
        _rate(cache.hit_rate) + _bounds(cache.hit_rate_interval, "{:.4f}"),
        f"cached tokens by usage, {tokens}",
    )
    if counted is not None and counted.hit_rate is not None and counted.prompt is not None:
        what = f"what the server counted ({counted.family}), of {counted.prompt:,.0f} {counted.unit} looked up"
        yield "  by counters", _rate(counted.hit_rate), what
    yield "optimum", _rate(cache.optimal_hit_rate), f"realised, infinite cache, {profile}"


def _ttft_rows(ttft_s: Distribution, p50: Bounds | None, p90: Bounds | None) -> Iterator[Row]:
    for name, value_s, bounds, meaning in (
        ("TTFT, median", ttft_s.p50, p50, "time to the first token, of all requests"),
        ("  p90", ttft_s.p90, p90, ""),
    ):
        yield name, f"{1000 * value_s:,.1f} ms" + _bounds(bounds and bounds.times(1000), "{:,.1f}"), meaning


def _window_rows(window: Window, *, gpus: int) -> Iterator[Row]:
    length_s = window.closes_s - window.opens_s
    yield (
        "jobs/h/user",
        f"{window.jobs_per_h_per_user:,.1f}" + _bounds(window.jobs_per_h_per_user_interval, "{:,.1f}"),
        f"mean job latency {window.mean_job_latency_s:,.3f} s in the window",
    )
    yield (
        "jobs/h/GPU",
        f"{window.jobs_per_h_per_gpu:,.1f}" + _bounds(window.jobs_per_h_per_gpu_interval, "{:,.1f}"),
        f"{window.jobs:,.2f} jobs in a window of {length_s:,.1f} s, {_plural(gpus, 'GPU')}",
    )
    yield (
        "  whole jobs",
        f"{window.whole_jobs_per_h_per_gpu:,.1f}",
        f"the field's rule: {_plural(window.whole_jobs, 'job')} end in the window",
    )
    if window.open_loop:
        yield from _open_loop_rows(window.open_loop)


def _open_loop_rows(loop: OpenLoop) -> Iterator[Row]:
    arrive = f"{_plural(loop.arrivals, 'session')} arrive in the window"
    yield "  offered", f"{loop.offered_per_h_per_gpu:,.1f}", arrive
    yield "  in flight", f"{loop.mean_in_flight:,.1f}", "sessions, on average over the window"
    if loop.latency_growth is not None:
        kept_up = "overloaded" if loop.overloaded else "kept up"
        yield "  server", kept_up, f"job latency grows by {loop.latency_growth:,.3f} s for each second of arrivals"


def _goodput_rows(goodput: Goodput, *, limits: str) -> Iterator[Row]:
    share = f"{goodput.share:.4f}" + _bounds(goodput.share_interval, "{:.4f}")
    yield "good answers", share, f"{goodput.good:,} of {_plural(goodput.ended, 'request')} within {limits}"
    if goodput.requests_per_s_per_gpu is not None:
        yield "  goodput", f"{goodput.requests_per_s_per_gpu:,.3f}/s/GPU", "good answers in the window"


def _token_rows(tokens: TokenRates) -> Iterator[Row]:
    requests = f"{_plural(tokens.whole_requests, 'request')} in the window"
    if tokens.tokens_per_s_per_user is not None:
        yield (
            "tokens/s/user",
            f"{tokens.tokens_per_s_per_user:,.1f}" + _bounds(tokens.tokens_per_s_per_user_interval, "{:,.1f}"),
            f"1 / median TPOT of {requests}",
        )
    if tokens.interactivity_per_s is not None:
        reached = tokens.interactivity_per_s
        yield (
            "  end to end",
            f"{reached.p50:,.1f}" + _bounds(tokens.interactivity_p50_interval_per_s, "{:,.1f}"),
            f"OSL / latency, of half of {requests}",
        )
        yield (
            "  slow side",
            f"{reached.p90:,.1f}" + _bounds(tokens.interactivity_p90_interval_per_s, "{:,.1f}"),
            "that 90 % of them reach",
        )
    yield (
        "tokens/s/GPU",
        f"{tokens.tokens_per_s_per_gpu:,.1f}" + _bounds(tokens.tokens_per_s_per_gpu_interval, "{:,.1f}"),
        "prompts and outputs in the window",
    )
    yield (
        "  output",
        f"{tokens.output_tokens_per_s_per_gpu:,.1f}" + _bounds(tokens.output_tokens_per_s_per_gpu_interval, "{:,.1f}"),
        "",
    )
    if tokens.fresh_tokens_per_s_per_gpu is not None:
        yield (
            "  fresh",
            f"{tokens.fresh_tokens_per_s_per_gpu:,.1f}"
            + _bounds(tokens.fresh_tokens_per_s_per_gpu_interval, "{:,.1f}"),
            "prompts without cached tokens, and outputs",
        )


def _distribution(name: str, values: Distribution | None, form: str, *, scale: float = 1) -> Iterator[Row]:
    if values is not None:
        cells = (values.mean, values.p50, values.p90, values.p99, values.max)
        yield (name, *(form.format(cell * scale) for cell in cells))


def _counts(counts: Counts) -> str:
    parts = [f"{counts.ok} of {counts.planned} done"]
    parts += [f"{counts.failed} failed"] if counts.failed else []
    parts += [f"{counts.cancelled} cancelled"] if counts.cancelled else []
    return ", ".join(parts)


def _rate(rate: float | None) -> str:
    return "not reported" if rate is None else f"{rate:.4f}"


def _bounds(bounds: Bounds | None, form: str) -> str:
    return f" ({form.format(bounds.low)} to {form.format(bounds.high)})" if bounds else ""


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f} s"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
