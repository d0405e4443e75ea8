"""The doctor on a real engine: it must find out by itself what the engine's profile says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.llama_server import FOUR_SLOTS, llama_server

from rotoscope.replayer.doctor.checks import Diagnosis
from rotoscope.replayer.doctor.examination import Examination, examine


@pytest.fixture(scope="module")
def diagnosis(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Diagnosis]:
    with llama_server(tiny_model, FOUR_SLOTS, tmp_path_factory.mktemp("doctor") / "log") as url:
        yield examine(Examination(url=url, timeout_s=60.0))


def test_nothing_is_wrong_with_llama_server(diagnosis: Diagnosis) -> None:
    print("", *(f"{check.name}: {check.verdict}, {check.seen}" for check in diagnosis.checks), sep="\n")

    assert diagnosis.exit_code == 0
    assert [check.name for check in diagnosis.checks if check.verdict == "warn"] == []


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("output ids", "5 of 5, asked for with n_probs"),
        (
            "ignore_eos",
            "6 of 6 tokens where the model ends after 1 (ignore_eos alone: obeyed, min_tokens alone: ignored)",
        ),
        ("cached tokens", "0 of a fresh prompt, 1,999 of 2,000 repeated"),
        ("block size", "1 token: cached 1,999 of 1,999, 1,023 of 1,023, 767 of 767 shared"),
        ("decode reuse", "kept: 72 cached of a prompt of 64 and its output of 9"),
        ("context", "8,192 tokens, by /v1/models; a longer prompt is refused"),
        ("metrics", "/metrics, those of llama.cpp"),
    ],
)
def test_what_is_known_of_llama_server_is_found_by_trying(diagnosis: Diagnosis, name: str, seen: str) -> None:
    assert {check.name: check.seen for check in diagnosis.checks}[name] == seen


def test_its_counters_agree_with_usage_and_its_options_are_named(diagnosis: Diagnosis) -> None:
    checks = {check.name: check.seen for check in diagnosis.checks}

    assert checks["counters"].startswith("agree with usage")
    assert diagnosis.command.endswith("--profile llama.cpp")
