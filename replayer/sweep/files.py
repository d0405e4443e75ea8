"""What the files of a sweep or a search may hold, for an audit: plans, tables of numbers and names, and pictures.

The results of the points are those of replays, which have kinds of their own.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import orjson
from annotated_types import Ge
from pydantic import ConfigDict, Strict, StringConstraints, create_model

from rotoscope.replayer.gates.gate import GATES
from rotoscope.replayer.slo import run as slo
from rotoscope.replayer.slo.objectives import METRICS, PERCENTS
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.sweep import run as sweep
from rotoscope.replayer.sweep.pictures import check_picture
from rotoscope.replayer.sweep.rows import Row
from rotoscope.replayer.sweep.settings import NAME, VALUE
from rotoscope.replayer.sweep.tabular import columns_of, csv_bytes, parquet_bytes, parquet_rows
from rotoscope.replayer.told_command import COMMAND
from rotoscope.traces.audit_census import Census
from rotoscope.traces.audit_findings import FileFindings
from rotoscope.traces.audit_kinds import NOT_OUR_BYTES, Kind, check_type, check_values, parsed_or_found

_COUNT = Annotated[int, Strict(), Ge(1)]
_NUMBER = Annotated[float, Strict(), Ge(0)]
_DIGEST = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{64}$")]
_CHECK = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{4}$")]
_VERSION = Annotated[
    str, StringConstraints(strict=True, pattern=r"^[0-9]+(\.[0-9]+){1,3}((a|b|rc|\.dev|\.post)[0-9]+)*$")
]
_SETTING = Annotated[str, StringConstraints(strict=True, pattern=rf"^{NAME.pattern}$")]
_VALUE = Annotated[str, StringConstraints(strict=True, pattern=rf"^{VALUE.pattern}$")]
_OPTION = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_]{0,31}$")]
_TOLD = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:,@+=-]{0,99}$")]
_OBJECTIVE = Annotated[
    str, StringConstraints(strict=True, pattern=f"^p({'|'.join(map(str, PERCENTS))})_({'|'.join(METRICS)})$")
]
_COMMON: dict[str, Any] = {
    "version": (_VERSION, ...),
    "seed": (Annotated[int, Strict()], ...),
    "corpus_sha256": (_DIGEST, ...),
    "server_check": (_CHECK, ...),
    "options": (
        dict[_OPTION, Annotated[bool, Strict()] | Annotated[int, Strict()] | Annotated[float, Strict()] | _TOLD | None],
        ...,
    ),
}
_PLANS: dict[str, tuple[int, Any]] = {
    sweep.FORMAT_NAME: (
        sweep.FORMAT_VERSION,
        create_model(
            "SweepPlan",
            __config__=ConfigDict(extra="forbid"),
            **_COMMON,
            concurrency=(list[_COUNT], ...),
            settings=(dict[_SETTING, list[_VALUE]], ...),
            sessions=(_COUNT | None, ...),
            sessions_per_user=(_COUNT | None, ...),
        ),
    ),
    slo.FORMAT_NAME: (
        slo.FORMAT_VERSION,
        create_model(
            "SloPlan",
            __config__=ConfigDict(extra="forbid"),
            **_COMMON,
            objectives=(dict[_OBJECTIVE, _NUMBER], ...),
            first=(_COUNT, ...),
            most=(_COUNT, ...),
            repeats=(_COUNT, ...),
            sessions_per_user=(_COUNT, ...),
            settings=(dict[_SETTING, _VALUE], ...),
        ),
    ),
}
_COLUMN = re.compile(r"[a-z][A-Za-z0-9_.]{0,119}")
_NUMBER_TEXT = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.:,/@+=%-]{0,99}")
_COMMAND = re.compile(COMMAND)
_CLOSED = {"", "true", "false", "yes", "no", "failed"}
"""Of tables; what a summary has of closed sets comes to them."""
_ANSWER = re.compile(rb'\{"met":(null|[0-9]{1,9}),"unmet":(null|[0-9]{1,9})(,"simulated":(true|false))?\}\n')


def check_plan(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check the plan of a sweep or of a search."""
    parsed = parsed_or_found(data, findings)
    if parsed is None or not isinstance(parsed.value, dict):
        findings.add("expected an object")
        return
    body = dict(parsed.value)
    told = body.pop("format", None)
    name = told.get("name") if isinstance(told, dict) else None
    version, kind = _PLANS.get(str(name), (0, None))
    if kind is None or told != {"name": name, "version": version}:
        findings.add(f"expected one of {', '.join(_PLANS)} in its version", field="format")
        return
    if not check_type(kind, body, findings):
        return
    if orjson.dumps(parsed.value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2) != data:
        findings.add(NOT_OUR_BYTES)
    check_values(body["settings"], findings)
    for value in _texts(body["settings"].values()):
        findings.see("setting", value)


def check_csv(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check a table."""
    try:
        columns, *lines = csv.reader(io.StringIO(data.decode("ascii"), newline=""), strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError):
        findings.add("expected a table of ASCII")
        return
    rows: list[Row] = [dict(zip(columns, line, strict=False)) for line in lines]
    if len({*columns}) < len(columns) or any(len(line) != len(columns) for line in lines) or csv_bytes(rows) != data:
        findings.add(NOT_OUR_BYTES)
        return
    _check_rows(rows, findings)


def check_parquet(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check the same table as Parquet, which must be as the pyarrow at hand writes it."""
    rows = parquet_rows(data)
    if rows is None:
        findings.add("cannot be read: install rotoscope[parquet], or leave it out, the table as CSV is the same")
        return
    _check_rows(rows, findings)
    if parquet_bytes(rows) != data:
        findings.add(f"{NOT_OUR_BYTES}: call the sweep again, which writes it anew")


def check_answer(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check the answer of a search."""
    if not _ANSWER.fullmatch(data):
        findings.add("expected two numbers, met and unmet")


SWEEP_KINDS = (
    Kind("plan", lambda name, head: any(f'"name": "{known}"'.encode() in head[:80] for known in _PLANS), check_plan),
    Kind("table", lambda name, head: name in (sweep.CSV_FILE, slo.PROBES_FILE), check_csv),
    Kind("table as Parquet", lambda name, head: name == sweep.PARQUET_FILE, check_parquet),
    Kind("picture", lambda name, head: name in (sweep.PARETO_FILE, sweep.HIT_RATE_FILE), check_picture),
    Kind("answer", lambda name, head: name == slo.ANSWER_FILE, check_answer),
)


def _check_rows(rows: Sequence[Row], findings: FileFindings) -> None:
    if not all(_COLUMN.fullmatch(name) for name in columns_of(rows)):
        findings.add("expected the name of a column", line=1)
        return
    for number, row in enumerate(rows, 2):
        for name, value in row.items():
            if isinstance(value, str) and not _is_closed(value):
                if _WORD.fullmatch(value):
                    findings.see("word in a table", value)
                else:
                    findings.add("expected a number, a name or a command of ours", line=number, field=name)
        check_values(row, findings, line=number)


def _is_closed(value: str) -> bool:
    return (
        value in _CLOSED
        or {*value.split(" ")} <= {*GATES}
        or value in _closed_of_summary()
        or bool(_NUMBER_TEXT.fullmatch(value) or _COMMAND.fullmatch(value))
    )


@cache
def _closed_of_summary() -> frozenset[str]:
    return frozenset(_literals(Summary))


def _literals(kind: Any) -> Iterator[str]:
    """Yield every string of the closed sets that a type has in it."""
    if is_dataclass(kind):
        for inner in get_type_hints(kind).values():
            yield from _literals(inner)
    elif get_origin(kind) is Literal:
        yield from (one for one in get_args(kind) if isinstance(one, str))
    else:
        for inner in get_args(kind):
            yield from _literals(inner)


def _texts(value: Any) -> Iterator[str]:
    for one in value:
        if isinstance(one, str):
            yield one
        else:
            yield from one
