from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rotoscope.cli import app
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.load.arrivals import POISSON, Arrivals
from rotoscope.replayer.load.fixed import Shape
from rotoscope.replayer.load.mix import Share
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.schedule import NO_GAPS, Gaps
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.replayer.told_command import COMMAND, NOT_TOLD, TOLD, command_of
from rotoscope.traces.corpus import CorpusName

SECRET = "what-somebody-wrote"
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "--seed 0"),
    ({"sessions": 64, "concurrency": 16, "seed": 3}, "--sessions 64 --concurrency 16 --seed 3"),
    (
        {"engine": "llama.cpp", "api": "chat", "preflight": False},
        "--engine llama.cpp --api chat --no-preflight --seed 0",
    ),
    ({"sessions": 8, "mix": (Share(1, 3.0), Share(2, 0.5))}, "--sessions 8 --mix 3:0.5 --seed 0"),
    ({"rate_per_h": 720.0, "duration_s": 60.0}, "--duration 60 --rate 720/h --seed 0"),
    ({"until_ci": 0.05}, "--until-ci 5% --seed 0"),
    ({"until_ci": 0.025}, "--until-ci 2.5% --seed 0"),
    ({"rate_per_h": 1e-6, "arrivals": POISSON}, "--rate 0.000001/h --seed 0"),
    ({"rate_per_h": 0.1, "arrivals": Arrivals("gamma", 1e-05)}, "--rate 0.1/h --arrivals gamma:1e-05 --seed 0"),
    ({"recorded_starts_s": (0.0, 1.0)}, "--arrivals recorded --seed 0"),
    ({"warm_up": "auto"}, "--warm-up auto --seed 0"),
    ({"warm_up": 4, "ramp_s": 2.5}, "--warm-up 4 --ramp 2.5 --seed 0"),
    ({"ramp_s": 2.5, "gpus": 8}, "--ramp 2.5 --seed 0 --gpus 8"),
    ({"limits": Limits(ttft_s=2.0, itl_s=0.05)}, "--seed 0 --goodput ttft:2,itl:0.05"),
    ({"profile": "vllm", "block_size": 32}, "--seed 0 --profile vllm --block-size 32"),
    ({"vocabulary": Vocabulary(1000, 30_000), "timeout_s": 9.0}, "--seed 0 --vocab 1000:30000 --timeout 9"),
    ({"gaps": NO_GAPS}, "--seed 0 --gaps none"),
    ({"gaps": Gaps("tools", scale=0.0)}, "--seed 0 --gaps tools --gap-scale 0"),
    ({"gaps": Gaps(scale=0.1, cap_s=3.0)}, "--seed 0 --gap-scale 0.1 --gap-cap 3"),
    ({"max_batch": 256}, "--seed 0 --max-batch 256"),
]


@pytest.mark.parametrize(("given", "told"), CASES)
def test_options_are_told_as_they_are_typed(given: dict[str, Any], told: str) -> None:
    command = command_of(ReplayOptions(url="http://127.0.0.1:1", **given))

    assert command == f"rotoscope replay CORPUS {told}"
    assert re.fullmatch(COMMAND, command)


def test_each_gate_that_is_skipped_is_told() -> None:
    command = command_of(ReplayOptions(url="http://127.0.0.1:1", skipped_gates=("lag", "jobs")))

    assert command == "rotoscope replay CORPUS --seed 0 --skip-gate lag --skip-gate jobs"
    assert re.fullmatch(COMMAND, command)


@pytest.mark.parametrize(("given", "told"), CASES)
def test_the_command_line_takes_what_is_told(given: dict[str, Any], told: str) -> None:
    replay = get_command(app).commands["replay"]  # type: ignore[attr-defined]

    context = replay.make_context("replay", ["traces", "--url", "http://127.0.0.1:1", *told.split()])

    assert context.params["seed"] == given.get("seed", 0)
    flags = [word for word in told.split() if word.startswith("--")]
    assert len([name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"]) == (
        len(flags) + 2
    )


def test_a_fixed_shape_stands_for_the_traces() -> None:
    command = command_of(ReplayOptions(sessions=9, fixed=Shape(1024, 256)))

    assert command == "rotoscope replay --sessions 9 --fixed 1024:256 --seed 0"
    assert re.fullmatch(COMMAND, command)


def test_growth_that_was_assumed_is_told() -> None:
    command = command_of(ReplayOptions(url="http://127.0.0.1:1"), assumes_growth=True)

    assert command == "rotoscope replay CORPUS --assume-growth --seed 0"
    assert re.fullmatch(COMMAND, command)


def test_the_simulator_and_its_settings_are_told() -> None:
    settings = {"blocks": "4096", "router": "kv", "profile": "llama.cpp", "timing": "qwen3-235b-gb200"}

    command = command_of(ReplayOptions(sessions=9), assumes_growth=True, simulated=settings)

    assert command == (
        "rotoscope replay CORPUS --simulate --set blocks=4096 --set router=kv --set profile=llama.cpp "
        "--set timing=qwen3-235b-gb200 --assume-growth --sessions 9 --seed 0"
    )
    assert re.fullmatch(COMMAND, command)


def test_a_simulator_as_it_is_by_default_is_told() -> None:
    command = command_of(ReplayOptions(), simulated={})

    assert command == "rotoscope replay CORPUS --simulate --seed 0"
    assert re.fullmatch(COMMAND, command)


def test_what_is_private_is_not_told() -> None:
    options = ReplayOptions(
        url=f"http://{SECRET}:1",
        model=SECRET,
        tokenizer=Path(SECRET),
        api_key=SECRET,
        folder=Path(SECRET),
        salt=SECRET,
        corpus=CorpusName(SECRET, "1.0"),
    )

    assert command_of(options) == "rotoscope replay CORPUS --seed 0"


def test_each_option_is_told_or_left_out_on_purpose() -> None:
    assert {one.name for one in fields(ReplayOptions)} == TOLD | NOT_TOLD
    assert {one.name for one in fields(Gaps)} == {"kind", "scale", "cap_s"}


@pytest.mark.parametrize(
    "text",
    [
        f"rotoscope replay CORPUS --{SECRET}",
        f"rotoscope replay CORPUS --seed {SECRET}",
        f"rotoscope replay CORPUS --seed 0 {SECRET}",
        f"rotoscope replay {SECRET}",
        "rotoscope replay CORPUS --url http://127.0.0.1:1",
        "rotoscope replay CORPUS --seed 0\n",
        f"rotoscope replay CORPUS --simulate --set model={SECRET} --seed 0",
        f"rotoscope replay CORPUS --simulate --set timing={SECRET} --seed 0",
    ],
)
def test_nothing_else_passes_for_a_command(text: str) -> None:
    assert not re.fullmatch(COMMAND, text)
