from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from foreign_traces import request, weka
from typer.testing import CliRunner

from rotoscope.cli import app
from rotoscope.testing import make_trace
from rotoscope.traces import UnusableInput, save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus of two kinds of agents."""
    for kind, turns in (("coder", 3), ("coder", 5), ("researcher", 2)):
        (tmp_path / kind).mkdir(exist_ok=True)
        save(make_trace(turns), tmp_path / kind / f"{turns}.trace.json")
    return tmp_path


def analyze(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["analyze", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_traces_are_grouped_by_their_folders_and_the_rate_has_its_definition(folder: Path) -> None:
    heading, *lines = analyze(folder).splitlines()

    assert heading.split() == ["coder", "researcher", "all"]
    assert next(line.split()[1:] for line in lines if line.startswith("requests ")) == ["8", "2", "10"]
    assert lines[-1].startswith("hit rate = prompt tokens an infinite cache serves / prompt tokens; planned optimum")


def test_labels_are_those_given(folder: Path) -> None:
    text = analyze(f"a={folder / 'coder'}", f"b={folder / 'researcher'}")

    assert text.splitlines()[0].split() == ["a", "b", "all"]


def test_json_and_csv_hold_the_same_values(folder: Path) -> None:
    rows = json.loads(analyze(folder, "--json"))["rows"]

    table = list(csv.DictReader(io.StringIO(analyze(folder, "--csv"))))

    assert [row["scope"] for row in rows] == ["trace"] * 3 + ["label"] * 2 + ["all"]
    assert table == [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows]


def test_each_assumption_changes_the_optimum_and_its_definition(folder: Path) -> None:
    options = [(), ("--no-preload",), ("--no-decode-reuse",), ("--block-size", "64"), ("--profile", "vllm")]

    answers = [json.loads(analyze(folder, "--json", *option)) for option in options]

    assert len({answer["rows"][-1]["hit_rate_tokens"] for answer in answers}) == len(options)
    assert len({answer["definition"] for answer in answers}) == len(options)


@pytest.mark.parametrize("tokens", ["0", "-16"])
def test_a_block_without_tokens_is_wrong_usage(tokens: str, folder: Path) -> None:
    done = CliRunner().invoke(app, ["analyze", str(folder), "--block-size", tokens])

    assert done.exit_code == 2
    assert "--block-size" in done.output


def test_json_and_csv_at_once_are_refused(folder: Path) -> None:
    with pytest.raises(UnusableInput, match="--json, --csv or --definitions, not several"):
        analyze(folder, "--json", "--csv")


def test_the_definitions_of_the_hit_rate_are_printed_by_name(folder: Path) -> None:
    heading, *lines = analyze(folder, "--definitions", "--block-size", "7").splitlines()

    assert heading.startswith("definition")
    assert "blocks of 7" in heading
    assert [line.split()[0] for line in lines[:6]] == [
        "block", "token", "full-block", "request-mean", "request-mean", "steady"
    ]  # fmt: skip
    assert len(set(re.findall(r" (0[.][0-9]{4}) ", "\n".join(lines)))) > 4


def test_growth_that_a_format_of_blocks_cannot_say_may_be_assumed(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(weka(request(0, [1, 2], tail=5, out=30), request(5, [1, 2, 3])))

    done = CliRunner().invoke(app, ["analyze", str(file), "--json", "--assume-growth"], catch_exceptions=False)

    (row, *_) = json.loads(done.stdout)["rows"]
    assert (row["hit_rate_tokens"], row["decode_reuse_known"]) == (163 / (133 + 192), "assumed")
    assert done.stderr.startswith("assumed for 1 of 2 calls")
