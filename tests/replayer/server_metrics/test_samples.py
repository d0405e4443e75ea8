from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.server_metrics.samples import NotPrometheus, Samples, read_samples


def read(*lines: str) -> Samples:
    return read_samples("\n".join(lines), ("e:",))


def total(samples: Samples, *names: str, **labels: tuple[str, ...]) -> float | None:
    counter = samples.counter(*names, **labels)
    return None if counter is None else counter.total


@pytest.mark.parametrize(
    "lines",
    [
        ("# TYPE e:hits_total counter", "e:hits_total 5"),
        ("# TYPE e:hits counter", "e:hits 5"),
        ("e:hits_total 5.0 1700000000000",),
        ("# TYPE e:hits counter", 'e:hits_total{} 5 # {trace_id="a b"} 1.0 1.6e9', "e:hits_created 1.6e9", "# EOF"),
    ],
    ids=["with _total", "without", "no type, with a timestamp", "OpenMetrics with an exemplar"],
)
def test_a_counter_is_found_however_it_is_written(lines: tuple[str, ...]) -> None:
    assert total(read(*lines), "e:hits") == 5.0


def test_counters_of_all_ranks_are_summed() -> None:
    assert total(read('e:hits{rank="0"} 5', 'e:hits{rank="1"} 7'), "e:hits") == 12.0


def test_series_are_chosen_by_how_a_label_begins() -> None:
    samples = read('e:hits{from="device"} 5', 'e:hits{from="storage_file"} 7', "e:hits 1")

    assert total(samples, "e:hits", **{"from": ("storage", "host")}) == 7.0


def test_the_first_name_that_there_is_counts() -> None:
    assert total(read("e:old 5"), "e:new", "e:old") == 5.0
    assert total(read("e:old 5", "e:new 6"), "e:new", "e:old") == 6.0
    assert total(read("e:other 5"), "e:new", "e:old") is None


def test_the_fullest_rank_counts() -> None:
    samples = read('e:usage{rank="0"} 0.25', 'e:usage{rank="1"} 0.75')

    assert samples.highest("e:usage") == 0.75
    assert samples.highest("e:none") is None


def test_replicas_are_summed_and_ranks_of_one_are_not() -> None:
    samples = read(
        'e:running{dp_rank="0",tp_rank="0"} 3',
        'e:running{dp_rank="0",tp_rank="1"} 3',
        'e:running{dp_rank="1",tp_rank="0"} 4',
    )

    assert samples.over_replicas("e:running") == 7.0


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_gauge_without_a_value_is_unknown(value: str) -> None:
    assert read(f"e:usage {value}").highest("e:usage") is None


def test_a_label_is_read_from_a_metric_that_exists_for_it() -> None:
    assert read('e:info{block_size="16",x="a\\"b"} 1').label("e:info", "block_size") == "16"
    assert read('e:info{x="1"} 1').label("e:info", "block_size") is None
    assert read("e:hits 1").label("e:info", "block_size") is None


def test_only_lines_of_metrics_that_are_asked_for_are_parsed() -> None:
    samples = read("other{ broken", 'e:time_bucket{le="broken} 1', "e:misses{ broken", "e:hits 5", "<html>", '{"a": 1}')

    assert "e:" in samples
    assert total(samples, "e:hits") == 5.0


@pytest.mark.parametrize("line", ["e:hits five", 'e:hits{a="1} 3', "e:hits", "e:hits{a=1} 3", "e:hits 1_0"])
def test_a_line_that_is_asked_for_and_is_no_sample_is_refused(line: str) -> None:
    samples = read(line)

    with pytest.raises(NotPrometheus):
        samples.counter("e:hits")


@pytest.mark.parametrize("text", ["", "<html><body>hi</body></html>", '[{"iter": 1}]', "\x00\xff", "# EOF"])
def test_what_is_no_metrics_has_no_samples(text: str) -> None:
    assert "e:" not in read(text)


def test_more_lines_than_any_server_has_are_refused_and_buckets_are_none_of_them() -> None:
    with pytest.raises(NotPrometheus, match="more than 40000"):
        read(*["e:hits 5"] * 40_001)

    assert total(read(*['e:time_bucket{le="1"} 5'] * 50_000, "e:hits 5"), "e:hits") == 5.0


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(NotPrometheus):
        read_samples(f"e:hits{text}", ("e:",)).counter("e:hits")
