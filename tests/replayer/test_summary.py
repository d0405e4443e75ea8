from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.gates.gate import Gate, GateName, Validity
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.results import FORMAT_VERSION, RequestResult, SessionResult
from rotoscope.replayer.server_metrics.counts import Growth
from rotoscope.replayer.summary import Summary, findings, summarise


def summary_of(
    requests: list[RequestResult] | None = None,
    sessions: list[SessionResult] | None = None,
    *,
    optimal: list[int] | None = None,
    interrupted: bool = False,
    counted: Growth | None = None,
    **setup: Any,
) -> Summary:
    requests = [make_request_result()] if requests is None else requests
    return summarise(
        make_setup(**setup),
        requests=requests,
        optimal_tokens=[50] * len(requests) if optimal is None else optimal,
        sessions=[make_session_result(number) for number in range(4)] if sessions is None else sessions,
        planned_requests=8,
        without_ids=0,
        interrupted=interrupted,
        duration_s=40.0,
        counted=counted,
    )


def growth_of(prompt: float | None, cached: float | None, **fields: Any) -> Growth:
    """Return what counters grew by; the answered request of these tests has 40 of 100 tokens cached."""
    told: dict[str, Any] = {"family": "vllm", "unit": "tokens", "restarted": False, "external_cached": None}
    told |= {"output_tokens": 3.0, "preemptions": 2.0, "prompt": prompt, "cached": cached}
    return Growth(**(told | fields))


def test_one_session_after_another_gives_its_exact_rates() -> None:
    window = summary_of().window

    assert window is not None
    assert (window.opens_s, window.closes_s, window.jobs) == (10.0, 30.0, 2.0)
    assert (window.jobs_per_h_per_user, window.jobs_per_h_per_gpu) == (360.0, 180.0)
    assert window.whole_jobs == 3


def test_failed_sessions_are_no_jobs_but_their_time_counts() -> None:
    sessions = [
        make_session_result(0),
        make_session_result(1, status="failed", latency_s=None),
        make_session_result(2),
        make_session_result(3),
    ]
    summary = summary_of(sessions=sessions)

    assert summary.window is not None
    assert summary.window.jobs == 1.0
    assert summary.job_latency_s is not None
    assert summary.job_latency_s.count == 3


def test_only_answered_requests_are_measured() -> None:
    failed = make_request_result(status="failed", failure=FailureKind.REFUSED, ttft_s=None, prompt_tokens=None)
    summary = summary_of([make_request_result(), failed, make_request_result(status="cancelled", ttft_s=9.0)])

    assert (summary.requests.planned, summary.requests.ok) == (8, 1)
    assert (summary.requests.failed, summary.requests.cancelled) == (1, 1)
    assert summary.failures == {"refused": 1}
    assert summary.ttft_s is not None
    assert summary.ttft_s.max == 0.25
    assert summary.cache.requests == 1


def test_the_hit_rate_stands_beside_the_optimum_of_the_same_requests() -> None:
    requests = [make_request_result(cached_tokens=40), make_request_result(prompt_tokens=300, cached_tokens=100)]
    failed = make_request_result(status="failed", cached_tokens=77)

    cache = summary_of([*requests, failed], optimal=[50, 150, 99]).cache

    assert (cache.prompt_tokens, cache.cached_tokens, cache.optimal_tokens) == (400, 140, 200)
    assert (cache.hit_rate, cache.optimal_hit_rate) == (0.35, 0.5)


def test_a_request_without_cached_tokens_found_none_where_others_are_told() -> None:
    cache = summary_of([make_request_result(cached_tokens=None), make_request_result(cached_tokens=50)]).cache

    assert (cache.hit_rate, cache.requests_without_report) == (0.25, 1)


def test_without_any_report_there_is_no_hit_rate() -> None:
    summary = summary_of([make_request_result(cached_tokens=None)])

    assert (summary.cache.cached_tokens, summary.cache.hit_rate) == (None, None)
    assert summary.cache.optimal_hit_rate == 0.5
    assert any("reports no cached tokens" in text for text in findings(summary))


def test_without_usage_the_planned_length_stands_for_the_prompt() -> None:
    summary = summary_of([make_request_result(prompt_tokens=None, completion_tokens=None)])

    assert summary.cache.prompt_tokens == 100
    assert summary.unverified == 1


@pytest.mark.parametrize(
    ("statuses", "interrupted", "valid", "code"),
    [
        (["ok", "ok"], False, True, 0),
        (["ok", "failed"], False, True, 0),
        (["ok", "ok"], False, False, 3),
        (["ok", "failed"], False, False, 3),
        (["failed", "failed"], False, False, 1),
        (["ok", "cancelled"], True, False, 130),
        (["cancelled"], True, True, 130),
    ],
)
def test_the_exit_code_says_how_it_went(statuses: list[str], interrupted: bool, valid: bool, code: int) -> None:
    sessions = [make_session_result(number, status=status) for number, status in enumerate(statuses)]
    summary = summary_of(sessions=sessions, interrupted=interrupted)

    assert replace(summary, validity=Validity(valid, ())).exit_code == code


def test_a_run_is_complete_where_all_planned_sessions_were_completed() -> None:
    assert summary_of(sessions=[make_session_result(number) for number in range(4)]).is_complete
    assert not summary_of(sessions=[make_session_result(number) for number in range(3)]).is_complete


@pytest.mark.parametrize(
    ("gate", "fields", "says"),
    [
        ("jobs", {"concurrency": 3}, "no rates"),
        (
            "errors",
            {"sessions": [make_session_result(0), make_session_result(1, status="failed")]},
            "1 of 2 sessions failed",
        ),
        ("output-lengths", {"requests": [make_request_result(osl_mismatch=True)]}, "another number of tokens"),
        ("prompt-lengths", {"requests": [make_request_result(isl_mismatch=True, prompt_tokens=97)]}, "prompt tokens"),
        ("lag", {"sessions": [make_session_result(n, lag_s=1.0) for n in range(100)]}, "saturated"),
    ],
)
def test_what_a_gate_that_failed_says_is_not_said_again(gate: GateName, fields: dict[str, Any], says: str) -> None:
    summary = summary_of(**fields)
    judged = replace(summary, validity=Validity.of([Gate(name=gate, passed=False, says=says)]))

    assert any(says in text for text in findings(summary))
    assert not any(says in text for text in findings(judged))


OPEN_LOOP: dict[str, Any] = {"concurrency": None, "rate_per_h": 60.0, "arrivals": "poisson"}


def late(count: int, *, by_s: float) -> list[SessionResult]:
    """Return sessions that take 10 s, each by so much longer than the one before it."""
    return [make_session_result(number, latency_s=10.0 + by_s * (number + 1)) for number in range(count)]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"simulated": True}, "measured on a simulator"),
        ({"interrupted": True}, "interrupted: no rates"),
        ({"concurrency": 3}, "takes at least 9 sessions"),
        ({"sessions": []}, "no rates: no session was completed"),
        (OPEN_LOOP | {"sessions": []}, "no rates: no session was completed"),
        ({"sessions": [make_session_result(n) for n in range(2)]}, "no rates: too few sessions behind"),
        ({"gpus_assumed": True}, "give --gpus"),
        ({"until_ci": 0.05, "sessions": late(9, by_s=1.0)}, "jobs/h is not known to 5 % but to "),
        ({"until_ci": 0.05, "sessions": []}, "jobs/h is not known to 5 %: give more --sessions"),
        ({"duration_s": 50.0}, "all 4 sessions ended before the duration was over: give more --sessions"),
        (OPEN_LOOP | {"sessions": late(4, by_s=100.0)}, "no rates: the longest sessions take more than half the time"),
        (OPEN_LOOP, "too few sessions to tell whether the server keeps up: 20 must"),
        (OPEN_LOOP | {"sessions": late(60, by_s=1.0)}, "overloaded: 180.0 sessions arrive in an hour and GPU and "),
        (
            {"sessions": [make_session_result(n, lag_s=0.001 * n) for n in range(100)]},
            "sessions were let in later than planned, 1 % by more than 98 ms, 99 ms at most",
        ),
        (
            {"requests": [make_request_result(isl_mismatch=True, prompt_tokens=tokens) for tokens in (97, 101)]},
            "2 requests: the server counted another number of prompt tokens than planned, 2.0 off on average, 3 at most",
        ),
        ({"requests": [make_request_result(osl_mismatch=True)]}, "1 requests: the answer has another number"),
        ({"requests": [make_request_result(completion_tokens=None)]}, "does not tell their lengths"),
    ],
)
def test_what_makes_the_numbers_doubtful_is_said(fields: dict[str, Any], says: str) -> None:
    assert any(says in text for text in findings(summary_of(**fields)))


def test_nothing_is_said_of_a_sound_run() -> None:
    assert list(findings(summary_of())) == []


def test_nothing_is_said_of_a_lag_that_a_client_always_has() -> None:
    summary = summary_of(sessions=[make_session_result(n, lag_s=0.02) for n in range(4)])

    assert summary.schedule_lag_s is not None
    assert summary.schedule_lag_s.p99 == 0.02
    assert list(findings(summary)) == []


def test_an_open_loop_has_a_window_and_says_what_arrived_in_it() -> None:
    summary = summary_of(**OPEN_LOOP, sessions=late(60, by_s=0.0))

    assert summary.schedule_lag_s is None
    assert summary.window is not None
    assert summary.window.open_loop is not None
    assert summary.window.open_loop.arrivals == 58
    assert summary.window.open_loop.overloaded is False
    assert not any("overloaded" in text or "no rates" in text for text in findings(summary))


def test_good_answers_are_counted_within_the_limits_of_the_setup() -> None:
    requests = [
        make_request_result(session=number, start_s=10.0 + 9.0 * number, ttft_s=0.25 + number) for number in range(2)
    ]
    summary = summary_of(requests, limits=Limits(ttft_s=1.0))

    assert summary.goodput is not None
    assert summary.goodput.good == 1
    assert summary.goodput.requests_per_s_per_gpu == pytest.approx(1 / 20 / 2)
    assert summary_of(requests).goodput is None
    interrupted = summary_of(requests, limits=Limits(ttft_s=1.0), interrupted=True).goodput
    assert interrupted is not None
    assert interrupted.requests_per_s_per_gpu is None


def test_an_interrupted_run_has_no_window() -> None:
    assert summary_of(interrupted=True).window is None


def test_the_file_holds_everything_but_the_single_requests_and_the_timeline() -> None:
    values = json.loads(orjson.dumps(summary_of().as_dict()))

    assert values["format"] == {"name": "rotoscope.results", "version": FORMAT_VERSION}
    assert set(values) == {"format", *Summary.__slots__} - {"request_results", "optimal_tokens", "timeline"}
    assert values["setup"]["salt"] == "salt"


def served_beside(summary: Summary) -> list[str]:
    return [text for text in findings(summary) if "counters tell" in text]


def test_what_the_server_counted_stands_beside_what_its_answers_told() -> None:
    summary = summary_of(counted=growth_of(200.0, 50.0, host_cached=10.0, external_cached=20.0))

    assert summary.counted is not None
    assert (summary.counted.hit_rate, summary.cache.hit_rate) == (0.4, 0.4)
    assert json.loads(orjson.dumps(summary.as_dict()))["counted"] == {
        "family": "vllm",
        "unit": "tokens",
        "prompt": 200.0,
        "cached": 50.0,
        "host_cached": 10.0,
        "external_cached": 20.0,
        "hit_rate": 0.4,
        "output_tokens": 3.0,
        "preemptions": 2.0,
    }


@pytest.mark.parametrize(("prompt", "says"), [(99.0, []), (101.0, []), (250.0, ["150 prompt tokens beside the 100"])])
def test_tokens_that_only_the_server_counts_are_noted(prompt: float, says: list[str]) -> None:
    found = served_beside(summary_of(counted=growth_of(prompt, 40.0)))

    assert len(found) == len(says)
    assert all(one in text for one, text in zip(says, found, strict=True))


def test_failed_requests_are_a_reason_to_count_other_tokens_than_the_answers() -> None:
    requests = [make_request_result(), make_request_result(status="failed", failure=FailureKind.CUT_STREAM)]
    failed = served_beside(summary_of(requests=requests, counted=growth_of(1000.0, 200.0)))
    sound = served_beside(summary_of(counted=growth_of(1000.0, 200.0)))

    assert ["requests that failed" in text for text in (*failed, *sound)] == [True, False]


@pytest.mark.parametrize(
    "counted",
    [
        None,
        growth_of(None, None),
        growth_of(1000.0, 900.0, restarted=True),
        growth_of(1000.0, 900.0, unit="blocks"),
    ],
    ids=["no metrics", "not told", "restarted", "blocks"],
)
def test_what_cannot_be_compared_is_not(counted: Growth | None) -> None:
    summary = summary_of(counted=counted)

    assert served_beside(summary) == []
    assert (summary.counted is None) == (counted is None or counted.restarted or counted.prompt is None)


@pytest.mark.parametrize(("preemptions", "says"), [(None, False), (0.0, False), (1200.0, True)])
def test_requests_that_were_set_back_are_noted(preemptions: float | None, says: bool) -> None:
    found = list(findings(summary_of(counted=growth_of(100.0, 40.0, preemptions=preemptions))))

    assert ("1,200 times a request was set back because the server's cache was full" in found) is says


def test_what_is_known_well_enough_when_all_sessions_have_ended_is_not_called_unknown() -> None:
    assert not any("is not known" in text for text in findings(summary_of(until_ci=0.05)))


def with_long_ones(count: int, *, slots: int) -> list[SessionResult]:
    """Return the sessions of a closed loop of which one in ten takes 20 s, and the others 1 s."""
    free_s = [0.0] * slots
    sessions = []
    for number in range(count):
        start_s = min(free_s)
        latency_s = 20.0 if number % 10 == 9 else 1.0
        free_s[free_s.index(start_s)] = start_s + latency_s
        sessions.append(make_session_result(number, admitted_s=start_s, start_s=start_s, latency_s=latency_s))
    return sessions


def test_rates_of_a_run_in_which_long_sessions_are_rare_yet_are_said_to_be_too_high() -> None:
    def said(count: int) -> list[str]:
        summary = summary_of(sessions=with_long_ones(count, slots=10), concurrency=10)
        return [
            text for text in findings(summary) if "% too high or more: a job that begins in the window takes" in text
        ]

    assert [len(said(count)) for count in (40, 800)] == [1, 0]


def test_rates_of_users_that_are_of_the_faster_requests_are_said_to_be_so() -> None:
    """Of three requests that are sent in the window, from 10 s to 30 s, one ends in it."""
    requests = [make_request_result(start_s=12.0, latency_s=latency_s) for latency_s in (1.0, 30.0, 30.0)]

    said = "tokens/s/user is of the 1 of 3 requests sent in the window that ended in it"
    assert any(said in text for text in findings(summary_of(requests)))
    assert not any("tokens/s/user is of" in text for text in findings(summary_of([*requests[:1] * 3, requests[1]])))


@pytest.mark.parametrize("itl_s", [None, 0.0])
def test_answers_that_come_in_one_piece_are_noted(itl_s: float | None) -> None:
    piece, stream = make_request_result(itl_s=itl_s), make_request_result()
    one_token = make_request_result(itl_s=None, completion_tokens=1)

    def said(requests: list[RequestResult], **setup: Any) -> list[str]:
        return [text for text in findings(summary_of(requests, **setup)) if "in one piece" in text]

    assert said([piece, piece, stream])[0].startswith("2 of 3 answers of several tokens came in one piece")
    assert said([piece, stream, one_token]) == []
    assert said([piece], simulated=True) == []
