from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from swept_runs import Performer

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.result_files import RESULT_KINDS
from rotoscope.replayer.slo.objectives import Objective
from rotoscope.replayer.slo.run import SloPlan, search
from rotoscope.replayer.sweep.files import SWEEP_KINDS
from rotoscope.replayer.sweep.places import Simulated
from rotoscope.replayer.sweep.plan import plan_sweep
from rotoscope.replayer.sweep.run import sweep
from rotoscope.replayer.sweep.tabular import parquet_bytes
from rotoscope.testing import make_trace
from rotoscope.traces.audit import audit

OPTIONS = ReplayOptions(url="http://somebody:secret@host/v1")
SECRET = "what somebody wrote"


def findings(folder: Path) -> list[str]:
    found = audit([folder], kinds=(*RESULT_KINDS, *SWEEP_KINDS)).findings.kept
    return [str(one).removeprefix(f"{folder}/") for one in found]


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    settings: dict[str, tuple[str, ...]] = {"max_batch": ("2", "8")}
    plan = plan_sweep(
        [make_trace(turns=1)],
        OPTIONS,
        concurrency=(1, 2),
        settings=settings,
        sessions=None,
        sessions_per_user=4,
        place=Simulated(settings),
    )
    sweep(plan, OPTIONS, folder=tmp_path / "swept", perform=Performer(), say=lambda text: None)
    return tmp_path / "swept"


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    plan = SloPlan(
        version="0.1.0",
        objectives=(Objective(95, "ttft", 2.0),),
        first=1,
        most=2,
        repeats=1,
        sessions_per_user=4,
        settings={"router": "kv"},
        seed=0,
        corpus_sha256="4e1c" * 16,
        server_check="ab12",
        options={"api": "auto", "ramp_s": 0.0},
    )
    search(plan, OPTIONS, folder=tmp_path / "searched", perform=Performer(), say=lambda text: None)
    return tmp_path / "searched"


def test_the_folder_of_a_sweep_passes(swept: Path) -> None:
    assert {"sweep.json", "sweep.csv"} <= {one.name for one in swept.iterdir()}
    assert findings(swept) == []


def test_the_folder_of_a_search_passes(searched: Path) -> None:
    assert {one.name for one in searched.iterdir()} == {"slo.json", "probes.csv", "answer.json", "points"}
    assert findings(searched) == []


def test_settings_and_words_of_tables_are_listed_for_people_to_look_at(swept: Path) -> None:
    names = audit([swept], kinds=(*RESULT_KINDS, *SWEEP_KINDS)).findings.sorted_names()
    listed = {(name.kind, name.value) for name, _ in names}

    assert {("setting", "8"), ("word in a table", "coding-agents")} <= listed


@pytest.mark.parametrize(
    "change",
    [
        {"note": SECRET},
        {"settings": {"max_batch": [SECRET]}},
        {"settings": {SECRET: ["8"]}},
        {"options": {"api": SECRET}},
        {"options": {SECRET: 1}},
        {"version": SECRET},
        {"corpus_sha256": SECRET},
        {"concurrency": [0]},
        {"format": {"name": "rotoscope.sweep", "version": 2}},
    ],
)
def test_a_plan_with_anything_else_does_not(swept: Path, change: dict[str, Any]) -> None:
    plan = json.loads((swept / "sweep.json").read_text()) | change
    (swept / "sweep.json").write_bytes(orjson.dumps(plan, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2))

    assert findings(swept)
    assert SECRET not in "".join(findings(swept))


def test_a_plan_that_is_spelled_otherwise_does_not(swept: Path) -> None:
    (swept / "sweep.json").write_text(json.dumps(json.loads((swept / "sweep.json").read_text())))

    assert "not spelled" in "".join(findings(swept))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(",yes,", f",{SECRET},", 1),
        lambda text: text.replace("concurrency", SECRET, 1),
        lambda text: text.replace(",yes,", ',"yes",', 1),
        lambda text: text + f"{SECRET}\n",
        lambda text: text + "1,2\n",
        lambda text: text.replace("yes", "yés", 1),
        lambda text: text.replace("yes", '"', 1),
    ],
)
def test_a_table_with_anything_else_does_not(swept: Path, change: Callable[[str], str]) -> None:
    (swept / "sweep.csv").write_text(change((swept / "sweep.csv").read_text()))

    (found,) = findings(swept)
    assert found.startswith("sweep.csv")
    assert SECRET not in found


def test_an_answer_with_anything_else_does_not(searched: Path) -> None:
    (searched / "answer.json").write_text('{"met":1,"unmet":"what"}\n')

    assert findings(searched) == ["answer.json: expected two numbers, met and unmet"]


def test_the_same_table_as_parquet_passes_and_another_does_not(swept: Path) -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow is installed here")
    from pyarrow import parquet

    assert (swept / "sweep.parquet").exists()
    table = parquet.read_table(swept / "sweep.parquet")
    parquet.write_table(table.replace_schema_metadata({"said": SECRET}), swept / "sweep.parquet")
    assert "not spelled" in "".join(findings(swept))
    (swept / "sweep.parquet").write_bytes(parquet_bytes([{"point": 1, "said": SECRET}]) or b"")
    assert "expected a number" in "".join(findings(swept))
    (swept / "sweep.parquet").write_bytes(b"PAR1" + SECRET.encode())
    assert "cannot be read" in "".join(findings(swept))
