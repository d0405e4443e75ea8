from __future__ import annotations

from dataclasses import replace

from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.gates.gate import Gate, Validity
from rotoscope.replayer.goodput import goodput_of
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.load.order import Order
from rotoscope.replayer.metrics import Distribution, Interval
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.replayer.summary import Counted, Summary, summarise
from rotoscope.replayer.table import DISTRIBUTION_HEADINGS, distribution_rows, outcome_rows
from rotoscope.replayer.window import window_of


def summary_of(requests: list[RequestResult], sessions: list[SessionResult]) -> Summary:
    return summarise(
        make_setup(sessions=3, simulated=True, profile="vllm", block_size=16, gpus=1),
        requests=requests,
        optimal_tokens=[48] * len(requests),
        sessions=sessions,
        planned_requests=2,
        without_ids=0,
        interrupted=False,
        duration_s=1.0,
    )


REQUEST = make_request_result(prompt_tokens=1000, cached_tokens=32)
SESSIONS = [make_session_result(number) for number in range(3)]


def test_the_table_says_what_was_measured_and_what_it_is() -> None:
    rows = {name.strip(): (value, meaning) for name, value, meaning in outcome_rows(summary_of([REQUEST], SESSIONS))}

    assert rows["model"] == ("m", "simulated")
    assert rows["server"] == ("any 0.32.0", "the version that it tells")
    assert rows["corpus"] == ("coding-agents 1.0", "sha256 4e1c4e1c4e1c")
    assert rows["sessions"] == ("3 of 3 done", "of 1 trace, concurrency 1")
    assert rows["hit rate"] == ("0.0320", "cached tokens by usage, of 1,000 prompt tokens")
    assert rows["optimum"] == ("0.0480", "realised, infinite cache, profile vllm, 16 tokens a block")
    assert rows["job latency"][0] == "10.000 s (10.000 to 10.000)"
    assert (rows["generating"][0], rows["queue, prefill"][0], rows["decode"][0]) == ("6.000 s", "1.500 s", "4.500 s")
    assert [rows[name][0] for name in ("waiting", "tools", "client", "overhead", "join wait")] == [
        "4.000 s",
        "3.000 s",
        "0.750 s",
        "0.250 s",
        "5.000 s",
    ]
    assert rows["jobs/h/user"][0] == "360.0"
    assert rows["jobs/h/GPU"] == ("360.0", "1.00 jobs in a window of 10.0 s, 1 GPU")


def test_token_rates_stand_below_the_job_rates() -> None:
    requests = [replace(REQUEST, session=number, start_s=5.0 * number, completion_tokens=4) for number in range(2, 4)]
    summary = summary_of(requests, SESSIONS)
    unreported = summary_of([replace(one, cached_tokens=None) for one in requests], SESSIONS)
    rows = [(name, value.partition(" (")[0]) for name, value, _ in outcome_rows(summary)]

    assert ("tokens/s/user", "4.0 (4.0 to 4.0)") in [row[:2] for row in outcome_rows(summary)]
    assert rows[rows.index(("tokens/s/user", "4.0")) :][:6] == [
        ("tokens/s/user", "4.0"),
        ("  end to end", "4.0"),
        ("  slow side", "4.0"),
        ("tokens/s/GPU", "200.8"),
        ("  output", "0.8"),
        ("  fresh", "194.4"),
    ]
    assert "  fresh" not in [name for name, *_ in outcome_rows(unreported)]
    assert ("TPOT, ms", "250.00", "250.00", "250.00", "250.00", "250.00") in list(distribution_rows(summary))


def test_good_answers_are_told_with_their_limits() -> None:
    setup = make_setup(limits=Limits(ttft_s=2.0, itl_s=0.05), gpus=1)
    requests = [replace(REQUEST, session=number) for number in range(2)]
    summary = replace(summary_of(requests, SESSIONS), setup=setup)
    goodput = goodput_of(setup, requests, Interval(0.0, 4.0))

    rows = list(outcome_rows(replace(summary, goodput=goodput)))
    at = rows.index(("good answers", "1.0000 (1.0000 to 1.0000)", "2 of 2 requests within ttft:2,itl:0.05"))
    assert rows[at + 1] == ("  goodput", "0.500/s/GPU", "good answers in the window")
    assert "good answers" not in [name for name, *_ in outcome_rows(summary)]


def test_an_open_loop_is_told_with_its_rate_and_lag() -> None:
    setup = make_setup(sessions=2, concurrency=None, rate_per_h=720.0, arrivals="gamma:0.5")
    late = [replace(session, lag_s=0.0025) for session in SESSIONS]
    summary = replace(summary_of([REQUEST], late), setup=setup)

    assert ("sessions", "3 of 3 done", "of 1 trace, gamma:0.5 arrivals, 720/h") in list(outcome_rows(summary))
    many = replace(summary, setup=replace(setup, arrivals="poisson", rate_per_h=3_600_000.0))
    assert ("sessions", "3 of 3 done", "of 1 trace, poisson arrivals, 3,600,000/h") in list(outcome_rows(many))
    assert ("schedule lag, ms", "2.5", "2.5", "2.5", "2.5", "2.5") in list(distribution_rows(summary))


def test_numbers_stand_with_their_intervals_where_there_are_sessions_to_tell_them() -> None:
    def rows_of(count: int) -> dict[str, str]:
        latencies_s = [5.0, 10.0, 20.0, 5.0, 10.0][:count]
        sessions = [make_session_result(number, latency_s=latency) for number, latency in enumerate(latencies_s)]
        requests = [replace(REQUEST, session=one.session, ttft_s=0.1 * (one.session + 1)) for one in sessions]
        return {name.strip(): value for name, value, _ in outcome_rows(summary_of(requests, sessions))}

    some, one, more = rows_of(3), rows_of(1), rows_of(5)

    assert some["TTFT, median"] == "200.0 ms (100.0 to 300.0)"
    assert some["p90"] == "280.0 ms (100.0 to 300.0)"
    assert some["hit rate"] == "0.0320 (0.0320 to 0.0320)"
    assert some["job latency"] == "11.667 s (5.000 to 20.000)"
    assert more["jobs/h/user"] == "308.6 (180.0 to 720.0)"
    assert some["intervals"] == "95 %"
    assert one["TTFT, median"] == "100.0 ms"
    assert "intervals" not in one


def test_of_a_duration_it_is_told_who_was_still_there() -> None:
    summary = summary_of([REQUEST], SESSIONS)
    setup = replace(summary.setup, duration_s=1800.0)
    summary = replace(summary, in_flight_at_end=3, ended_by="duration", setup=setup)

    assert ("sessions", "3 of 3 done", "of 1 trace, concurrency 1, 3 in flight after 1,800 s") in list(
        outcome_rows(summary)
    )


def test_of_a_run_until_jobs_an_hour_are_known_it_is_told_who_was_still_there() -> None:
    summary = replace(summary_of([REQUEST], SESSIONS), in_flight_at_end=3, ended_by="interval")

    assert ("sessions", "3 of 3 done", "of 1 trace, concurrency 1, 3 in flight when jobs/h was known") in list(
        outcome_rows(summary)
    )


def test_prompts_of_words_are_told_with_the_error_of_their_lengths() -> None:
    template = ChatTemplate(head=5, turn=11, back=6, tail=11, common=11)
    setup = make_setup(api="chat", words=399, template=template, tokens_from="usage")
    summary = replace(summary_of([replace(REQUEST, prompt_tokens=97)], SESSIONS), setup=setup)

    rows = {name.strip(): (value, meaning) for name, value, meaning in outcome_rows(summary)}
    assert rows["prompts"] == ("399 words", "chat, template 5 + 11 tokens, 6 between turns, from usage")
    assert ("  error of ISL", "3.0", "3.0", "3.0", "3.0", "3.0") in list(distribution_rows(summary))
    assert "prompts" not in [row[0] for row in outcome_rows(summary_of([REQUEST], SESSIONS))]


def test_the_servers_own_rate_stands_below_that_of_its_answers() -> None:
    counted = Counted(
        family="vllm",
        unit="tokens",
        prompt=10_700.0,
        cached=6944.0,
        host_cached=None,
        external_cached=None,
        hit_rate=0.64897,
        output_tokens=None,
        preemptions=None,
    )
    summary = replace(summary_of([REQUEST], SESSIONS), counted=counted)
    rows = list(outcome_rows(summary))

    names = [name for name, *_ in rows]
    row = ("  by counters", "0.6490", "what the server counted (vllm), of 10,700 tokens looked up")
    assert row in rows
    assert names[names.index("  by counters") - 1] == "hit rate"
    assert "  by counters" not in [name for name, *_ in outcome_rows(summary_of([REQUEST], SESSIONS))]


def test_distributions_are_in_the_unit_of_their_name() -> None:
    requests = [REQUEST, replace(REQUEST, ttfo_s=0.5)]
    rows = {row[0]: row[1:] for row in distribution_rows(summary_of(requests, SESSIONS))}

    assert rows["ISL, tokens"] == ("1,000",) * 5
    assert rows["TTFT, ms"] == ("250.0",) * 5
    assert rows["TTFO, ms"] == ("500.0",) * 5
    assert rows["ITL, ms"] == ("12.50",) * 5
    assert rows["job latency, s"] == ("10.000",) * 5
    assert all(len(row) == len(DISTRIBUTION_HEADINGS) - 1 for row in rows.values())
    assert DISTRIBUTION_HEADINGS[1:] == tuple(name for name in Distribution.__slots__ if name != "count")


def test_a_run_without_an_answer_has_its_counts_only() -> None:
    summary = summary_of([], [])

    assert [row[0] for row in outcome_rows(summary)] == ["model", "server", "corpus", "sessions", "requests"]


def test_what_has_no_name_and_no_version_is_told_by_its_digest() -> None:
    summary = summary_of([], [])
    setup = replace(summary.setup, corpus_name=None, corpus_version=None, server_version=None)

    rows = {row[0]: row[1:] for row in outcome_rows(replace(summary, setup=setup))}

    assert rows["corpus"] == ("without a name", "sha256 4e1c4e1c4e1c")
    assert "server" not in rows
    assert list(distribution_rows(summary)) == []


def test_what_an_open_loop_offered_stands_below_what_was_done() -> None:
    sessions = [make_session_result(number, latency_s=10.0 + number) for number in range(60)]
    setup = make_setup(sessions=60, concurrency=None, rate_per_h=360.0, arrivals="constant", gpus=1)
    summary = replace(summary_of([REQUEST], SESSIONS), setup=setup, window=window_of(setup, sessions, []))

    rows = {name.strip(): (value, meaning) for name, value, meaning in outcome_rows(summary)}

    assert rows["offered"] == ("360.0", "52 sessions arrive in the window")
    assert rows["in flight"][0] == "3.9"
    assert rows["server"] == ("overloaded", "job latency grows by 0.100 s for each second of arrivals")


def test_a_closed_loop_has_no_such_rows() -> None:
    assert not {"  offered", "  server"} & {name for name, _, _ in outcome_rows(summary_of([REQUEST], SESSIONS))}


def test_the_order_of_requests_stands_with_what_it_is() -> None:
    summary = replace(summary_of([REQUEST], SESSIONS), order=Order(4000, 1000, 0.25))

    rows = {name.strip(): (value, meaning) for name, value, meaning in outcome_rows(summary)}

    assert rows["in order"] == ("0.7500", "1,000 of 4,000 pairs of requests of different sessions were swapped")


def test_whether_the_run_is_valid_stands_first() -> None:
    summary = summary_of([REQUEST], SESSIONS)
    judged = replace(summary, validity=Validity.of([Gate(name="jobs", passed=False, says="few")]))

    assert next(outcome_rows(judged)) == ("validity", "INVALID", "0 of 1 gates passed")
    assert next(outcome_rows(summary))[0] == "model"
