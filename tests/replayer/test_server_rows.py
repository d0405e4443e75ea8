from __future__ import annotations

from dataclasses import replace

from rotoscope.replayer.cache_use import CacheUse
from rotoscope.replayer.metrics import Level
from rotoscope.replayer.queueing import Queueing
from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.server_rows import queueing_rows, server_rows, timeline_rows
from rotoscope.replayer.server_side import ServerSide, Tiers
from rotoscope.replayer.timeline import timeline_of

SIDE = ServerSide(
    over="window",
    from_s=1.0,
    to_s=3.0,
    usage=CacheUse(
        requests=2, prompt_tokens=4000, cached_tokens=1000, hit_rate=0.25, optimal_tokens=3000, optimal_hit_rate=0.75
    ),
    samples=2,
    missed=0,
    counters=Tiers(
        unit="tokens",
        prompt=4000.0,
        cached=800.0,
        host_cached=200.0,
        external_cached=None,
        hit_rate=0.25,
        own_hit_rate=0.2,
        host_hit_rate=0.05,
        external_hit_rate=None,
    ),
    kv_usage=Level(0.5, 0.4, 0.9),
    host_usage=None,
    running=Level(8.0, 8.0, 12.0),
    waiting=Level(2.5, 2.0, 7.0),
    max_batch=16,
    batch_fill=0.5,
    request_queue_s=None,
    request_prefill_s=None,
)
QUEUEING = Queueing(
    told="queue and prefill", request_queue_s=3.0, request_prefill_s=1.0, job_queue_s=15.0, job_prefill_s=5.0
)


def test_what_the_server_did_in_the_window_is_shown() -> None:
    rows = {name.strip(): (value, meaning) for name, value, meaning in server_rows(SIDE)}

    assert rows["hit rate in the window"] == ("0.2500", "optimum 0.7500, of 4,000 prompt tokens")
    assert rows["tiers, by counters"] == ("0.2500", "0.2000 in the engine's own cache, 0.0500 in host memory")
    assert rows["KV cache in use"] == ("50.0%", "mean in the window, 90.0% at most")
    assert rows["requests running"] == ("8.0", "mean in the window, 8 or fewer half of the time, 12 at most")
    assert rows["batch fill"] == ("50.0%", "mean running of a batch of 16")
    assert rows["requests waiting"][0] == "2.5"


def test_what_is_not_known_is_not_shown() -> None:
    silent = replace(
        SIDE, over="run", counters=None, kv_usage=None, running=None, waiting=None, batch_fill=None, samples=0
    )

    assert list(server_rows(silent)) == []


def test_queue_and_prefill_of_a_job_stand_apart_with_what_divides_them() -> None:
    assert [row[:2] for row in queueing_rows(QUEUEING)] == [("      queue", "15.000 s"), ("      prefill", "5.000 s")]
    (queue, _) = queueing_rows(replace(QUEUEING, told="prefill"))
    assert "left of the TTFT" in queue[2]
    assert list(queueing_rows(None)) == []
    assert list(queueing_rows(replace(QUEUEING, job_queue_s=None, job_prefill_s=None))) == []


def test_a_run_over_time_has_rows_of_bars_where_its_server_was_looked_at() -> None:
    samples = [ServerSample(at_s=at_s, prompt=at_s, cached=0.0, running=at_s) for at_s in (0.0, 1.0, 2.0)]
    rows = {name.strip(): value for name, value, _ in timeline_rows(timeline_of([], [], samples, duration_s=2.0))}

    assert len(rows["running"]) == 20
    assert rows["running"][0] == "▁"
    assert rows["running"][-1] == "█"
    assert "waiting" not in rows
    assert list(timeline_rows(timeline_of([], [], [], duration_s=2.0))) == []
