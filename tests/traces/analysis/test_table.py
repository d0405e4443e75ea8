from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

from rotoscope.traces import Call, Prefix, Trace
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.analysis.profiles import PROFILES
from rotoscope.traces.analysis.statistics import describe
from rotoscope.traces.analysis.table import Described, as_csv, definition, lines, rows
from rotoscope.traces.analysis.table import described as table_of
from rotoscope.traces.formats import open_traces


def small(prompt: int, shared: int, low: int | None = None) -> Trace:
    first = Call(
        call=0,
        conversation_id=0,
        message_index=0,
        prompt_tokens=100,
        completion_tokens=10,
        prefix=Prefix(None, 0, "text"),
    )
    second = replace(first, call=1, prompt_tokens=prompt, prefix=Prefix(0, shared, "text", low))
    return Trace(trace_id="00000000", campaign="11111111", token_source="usage", events=(first, second))


def described(label: str, trace: Trace) -> Described:
    return Described(label, label, describe(trace))


TABLE = rows([described("a", small(100, 50)), described("a", small(300, 110)), described("b", small(200, 110, low=90))])


def test_groups_are_pooled_and_averaged() -> None:
    scopes = [(row["scope"], row["label"], row["traces"]) for row in TABLE]
    group = TABLE[3]

    assert scopes[3:] == [("label", "a", 2), ("label", "b", 1), ("all", "", 3)]
    assert group["hit_rate_tokens"] == 160 / 600
    assert group["hit_rate_tokens_mean"] == (50 / 200 + 110 / 400) / 2
    assert group["requests"] == 4


def test_one_label_needs_no_row_over_all() -> None:
    assert [row["scope"] for row in rows([described("a", small(100, 50))])] == ["trace", "label"]


def test_csv_holds_the_same_values() -> None:
    back = list(csv.DictReader(io.StringIO(as_csv(TABLE))))

    assert len(back) == len(TABLE)
    assert [float(row["hit_rate_tokens"]) for row in back] == [row["hit_rate_tokens"] for row in TABLE]


def test_bounds_are_shown_where_they_differ() -> None:
    shown = {line[0]: line[1:] for line in lines(TABLE[3:5])}

    assert shown["optimal hit rate, pooled"] == ("26.67%", "36.67% (30.00% to 36.67%)")


def test_unknown_reuse_of_outputs_is_said() -> None:
    unknown = replace(small(100, 50), outputs="unknown")

    shown = {line[0]: line[1:] for line in lines(rows([described("a", unknown)])[1:])}
    assert shown["reuse of outputs"] == ("unknown: at least this",)


def test_assumed_reuse_of_outputs_is_said_and_less_than_known() -> None:
    assumed, unknown = (replace(small(100, 50), outputs=how) for how in ("assumed", "unknown"))
    groups = rows([described("a", assumed), described("a", small(100, 50)), described("b", unknown)])[3:]

    assert [group["decode_reuse_known"] for group in groups] == ["assumed", "no", "no"]
    shown = {line[0]: line[1:] for line in lines(groups)}
    assert shown["reuse of outputs"][0] == "assumed where prompts grew"


def test_of_a_group_the_reuse_of_outputs_is_known_where_it_is_for_all() -> None:
    unknown = replace(small(100, 50), outputs="unknown")
    groups = rows([described("a", unknown), described("a", small(100, 50)), described("b", small(100, 50))])[3:]

    assert [group["decode_reuse_known"] for group in groups] == ["no", "yes", "no"]


def test_each_rate_has_its_definition() -> None:
    said = definition(Assumptions(profile=PROFILES["vllm"], preload=False))

    assert "full blocks of 16 tokens" in said
    assert "decode reuse on" in said
    assert "not preloaded" in said
    assert "decode reuse off" in definition(Assumptions(profile=PROFILES["prompt-only"]))


def test_a_trace_without_calls_has_no_hit_rate_that_could_be_averaged() -> None:
    group = rows([described("a", small(100, 50)), described("a", replace(small(100, 50), events=()))])[2]

    assert (group["traces"], group["hit_rate_tokens_mean"]) == (2, 50 / 200)


def test_a_corpus_that_is_given_twice_has_a_cache_each_time(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(
        b"".join(b'{"timestamp":%d,"input_length":9,"output_length":1,"hash_ids":[1]}\n' % n for n in (0, 1))
    )
    once, twice = open_traces([path]), open_traces([f"a={path}", f"b={path}"])

    figures = [one.statistics.hit_tokens["n"] for one in table_of(twice, Assumptions())]

    assert figures == [one.statistics.hit_tokens["n"] for one in table_of(once, Assumptions())] * 2
