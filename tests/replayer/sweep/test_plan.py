from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from rotoscope.replayer.limits import Limits
from rotoscope.replayer.load.mix import Share
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.sweep.places import Simulated
from rotoscope.replayer.sweep.plan import SweepPlan, plan_sweep, told_options
from rotoscope.testing import make_trace
from rotoscope.traces.audit_findings import PUBLIC_NAME
from rotoscope.traces.errors import UnusableInput

OPTIONS = ReplayOptions(url="http://u:p@host/v1", seed=3)


def plan(options: ReplayOptions = OPTIONS, **changes: Any) -> SweepPlan:
    given: dict[str, Any] = {
        "concurrency": (1, 8),
        "settings": {"max_batch": ("8", "16"), "router": ("kv",)},
        "sessions": None,
        "sessions_per_user": 4,
    } | changes
    return plan_sweep([make_trace(turns=2)], options, place=Simulated({}), **given)


def test_the_grid_is_settings_in_their_order_and_concurrency_within() -> None:
    points = plan().points()

    assert [(one.number, one.settings["max_batch"], one.concurrency) for one in points] == [
        (1, "8", 1),
        (2, "8", 8),
        (3, "16", 1),
        (4, "16", 8),
    ]
    assert str(points[3]) == "max_batch 16, router kv, C 8"
    assert points[3].name == "point-004_c=8_max_batch=16_router=kv"


def test_without_settings_the_grid_is_the_concurrency() -> None:
    assert [(one.concurrency, one.settings) for one in plan(settings={}).points()] == [(1, {}), (8, {})]


def test_names_of_points_are_those_that_results_may_have() -> None:
    names = [one.name for one in plan(settings={"m": ("a/b@1:c", "a%b@1+c" * 9), "f": ("--x",)}).points()]

    assert len({*names}) == 4
    assert all(PUBLIC_NAME.match(name) and "/" not in name for name in names)


def test_the_order_is_drawn_from_the_seed() -> None:
    def order(seed: int) -> list[int]:
        drawn = plan(replace(OPTIONS, seed=seed), concurrency=range(1, 20)).in_order()
        return [one.number for one in drawn]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == [*range(1, 39)] != order(1)


def test_sessions_grow_with_the_concurrency_but_are_enough_or_are_the_same() -> None:
    assert [plan().sessions_of(one) for one in plan().points()][:2] == [15, 36]
    assert [plan(sessions=9, sessions_per_user=None).sessions_of(one) for one in plan().points()][:2] == [9, 9]


def test_other_traces_and_other_options_make_another_plan() -> None:
    other = plan_sweep(
        [make_trace(turns=3)],
        OPTIONS,
        concurrency=(1,),
        settings={},
        sessions=None,
        sessions_per_user=None,
        place=Simulated({}),
    )

    assert other.corpus_sha256 != plan().corpus_sha256
    assert plan(replace(OPTIONS, ramp_s=3.0)).options != plan().options


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://elsewhere"},
        {"api_key": "sk-secret"},
        {"folder": Path("there")},
        {"tokenizer": Path("/home/jo/tokenizer.json")},
        {"salt": "x"},
    ],
)
def test_what_belongs_to_a_machine_or_a_point_is_not_told(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"url": "http://host"} | change

    assert told_options(ReplayOptions(**given)) == told_options(ReplayOptions(url="http://host"))


def test_that_gpus_are_counted_by_an_exporter_is_told_and_not_where_it_is() -> None:
    without, asked, other = (told_options(replace(OPTIONS, dcgm=one)) for one in (None, "gpu-7:9400", "gpu-8:9400"))

    assert without != asked == other


def test_a_tokenizer_is_told_by_what_it_holds(tmp_path: Path) -> None:
    def told(content: str, name: str) -> object:
        (tmp_path / name).write_text(content)
        return told_options(replace(OPTIONS, tokenizer=tmp_path / name))

    assert told("one", "a") == told("one", "b") != told("other", "a")


def test_points_of_too_many_sessions_are_refused_before_any_runs() -> None:
    with pytest.raises(UnusableInput, match="at most 1,000,000, not 2000000"):
        plan(concurrency=(1, 500_000), sessions_per_user=4)


@pytest.mark.parametrize("name", ["gpus", "max_batch"])
def test_what_is_said_twice_is_refused(name: str) -> None:
    given: dict[str, Any] = {name: 4}

    with pytest.raises(UnusableInput, match=f"{name} is a setting and an option: leave --set {name} or --{name[:3]}"):
        plan(replace(OPTIONS, **given), settings={name: ("2",)})


def test_options_are_told_as_numbers_and_names() -> None:
    told = told_options(
        replace(OPTIONS, model="/home/jo/models/m.gguf", limits=Limits(ttft_s=2.0), mix=(Share(1, 2.0),), sessions=4)
    )

    assert told["model"] == "m.gguf"
    assert told["limits"] == "ttft:2"
    assert told["mix"] != told_options(replace(OPTIONS, mix=(Share(1, 3.0),), sessions=4))["mix"]
    assert b"jo" not in orjson.dumps(told)
    assert all(value is None or isinstance(value, bool | int | float | str) for value in told.values())
