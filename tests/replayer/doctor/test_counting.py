from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from aiohttp import web
from asking_a_patient import asking
from doctor_server import Patient
from event_loops import in_event_loop

from rotoscope.replayer.doctor.checks import Check
from rotoscope.replayer.doctor.counting import Counters, check_counters, check_endpoint
from rotoscope.replayer.server_metrics.scrape import Endpoint, NoMetrics, find_metrics


async def checked(patient: Patient, *, metrics: Callable[[], str | None]) -> dict[str, Check]:
    """Have a prompt completed twice between two looks at the metrics; None answers 404."""

    async def answer(request: web.Request) -> web.StreamResponse:
        text = metrics()
        return web.Response(status=404) if text is None else web.Response(text=text)

    async with asking(patient, {"/metrics": answer}) as (asker, known):
        endpoint = await find_metrics(asker.wire.http, asker.wire.api, timeout_s=60.0)
        checks = [check_endpoint(endpoint, known)]
        prompt = asker.fresh(100)
        for _ in range(2):
            await asker.complete(prompt, 1)
        if isinstance(endpoint, Endpoint):
            counters = Counters(asker.wire.http, endpoint, timeout_s=60.0, pause_s=0.0)
            checks.append(await check_counters(asker, counters))
    return {check.name: check for check in checks}


def vllm(prompt: int, cached: int) -> str:
    return f"vllm:prefix_cache_queries_total {prompt}\nvllm:prefix_cache_hits_total {cached}\n"


@in_event_loop
async def test_counters_that_grow_by_what_the_answers_told_agree() -> None:
    patient = Patient()
    checks = await checked(patient, metrics=lambda: vllm(7 + patient.prompt_tokens, 5 + patient.cached_tokens))

    assert checks["metrics"].seen == "/metrics, those of vllm"
    assert checks["counters"].verdict == "ok"
    assert checks["counters"].seen == "agree with usage: 96 of 200 tokens cached"


@in_event_loop
async def test_counters_that_lag_behind_are_looked_at_again() -> None:
    texts = iter([vllm(0, 0), vllm(0, 0), vllm(100, 0), vllm(200, 96)])
    checks = await checked(Patient(), metrics=lambda: next(texts))

    assert checks["counters"].verdict == "ok"


@pytest.mark.parametrize(
    ("texts", "verdict", "says"),
    [
        ([vllm(0, 0), vllm(900, 500)], "warn", "500 of 900 tokens cached, by usage 96 of 200 tokens"),
        ([vllm(500, 0), vllm(10, 0)], "warn", "began anew"),
        ([vllm(0, 0), None], "warn", "status 404"),
        (["llamacpp:prompt_tokens_total 1\n", "llamacpp:prompt_tokens_total 9\n"], "none", "tells no prompt"),
    ],
    ids=["others are served", "restart", "gone", "not told"],
)
@in_event_loop
async def test_other_counters_are_told(texts: list[str | None], verdict: str, says: str) -> None:
    rest: Iterator[str | None] = iter(texts)
    checks = await checked(Patient(), metrics=lambda: next(rest, texts[-1]))

    assert checks["counters"].verdict == verdict
    assert says in checks["counters"].seen


@in_event_loop
async def test_without_usage_there_is_nothing_to_compare() -> None:
    texts = iter([vllm(0, 0)] + [vllm(200, 96)] * 5)
    checks = await checked(Patient(has_usage=False), metrics=lambda: next(texts))

    assert checks["counters"].verdict == "none"
    assert "not all answers tell theirs" in checks["counters"].seen


@in_event_loop
async def test_no_metrics_is_no_fault_and_says_why() -> None:
    async with asking(Patient()) as (_, known):
        check = check_endpoint(NoMetrics("/metrics: status 404"), known)

    assert (check.verdict, check.seen, known.family) == ("none", "/metrics: status 404", None)
