"""What the files of a replay may hold, for an audit: each field of a result a number in range, a closed set, or a name.

The types are those of the classes that are written, made strict; a string field is refused until its form is said here.
"""

from __future__ import annotations

import types
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson
from annotated_types import Ge, Le
from pydantic import AllowInfNan, ConfigDict, Strict, StringConstraints, create_model

from rotoscope.replayer.backends.apis import APIS
from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.gpu_telemetry.readings import GpuSample
from rotoscope.replayer.results import (
    FORMAT_NAME,
    FORMAT_VERSION,
    GPUS_FILE,
    REQUESTS_FILE,
    SERVER_FILE,
    SESSIONS_FILE,
    TIMELINE_FILE,
    RequestResult,
    SessionResult,
)
from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.server_version import VERSION
from rotoscope.replayer.summary import NOT_WRITTEN, Summary
from rotoscope.replayer.timeline import Bin
from rotoscope.replayer.told_command import COMMAND
from rotoscope.traces import corpus
from rotoscope.traces.analysis.profiles import PROFILES
from rotoscope.traces.audit_census import Census
from rotoscope.traces.audit_findings import FileFindings
from rotoscope.traces.audit_kinds import NOT_OUR_BYTES, Kind, check_type, check_values, parsed_or_found

_INTEGER = Annotated[int, Strict(), Ge(-(2**63)), Le(2**64 - 1)]
_NUMBER = Annotated[float, Strict(), AllowInfNan(False)]
_FLAG = Annotated[bool, Strict()]
_NAME = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@+=-]{0,99}$")]
_SENTENCE = Annotated[str, StringConstraints(strict=True, pattern=r"^[ -~]{1,400}$")]
"""A note of Rotoscope's own; which it is cannot be said by a pattern, so that it is counted for people to read."""


def _matching(form: str) -> Any:
    return Annotated[str, StringConstraints(strict=True, pattern=rf"^(?:{form})$")]


_STRINGS: dict[str, Any] = {
    "error_type": _NAME,
    "error_code": _NAME,
    "model": _NAME,
    "engine": _NAME,
    "api": Literal[("auto", *APIS)],
    "profile": Literal[tuple(PROFILES)],
    "arrivals": Annotated[
        str, StringConstraints(strict=True, pattern=r"^(constant|poisson|recorded|gamma:[0-9.e-]{1,12})$")
    ],
    "family": Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z]{1,8}(\.cpp)?$")],
    "version": Annotated[
        str, StringConstraints(strict=True, pattern=r"^[0-9]+(\.[0-9]+){1,3}((a|b|rc|\.dev|\.post)[0-9]+)*$")
    ],
    "command": _matching(COMMAND),
    "corpus_name": _matching(corpus.NAME),
    "corpus_version": _matching(corpus.VERSION),
    "corpus_sha256": _matching("[0-9a-f]{64}"),
    "server_version": _matching(VERSION),
    "salt": _NAME,
    "unit": Literal["tokens", "blocks"],
    "vocabulary": Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9]{1,10}:[0-9]{1,10}$")],
    "notes": _SENTENCE,
    "says": _SENTENCE,
}
_PUBLIC = ("model", "engine", "error_type", "error_code", "salt", "corpus_name", "server_version")
"""Names that a server or a person chose."""
_VERSIONS = range(1, FORMAT_VERSION + 1)


def check_lines(data: bytes, findings: FileFindings, census: Census, *, kind: type) -> None:
    """Check a file of results, a line each."""
    *lines, rest = data.split(b"\n")
    if rest:
        findings.add("ends within a line, which nobody can check", line=len(lines) + 1)
    for number, line in enumerate(lines, 1):
        parsed = parsed_or_found(line, findings, line=number)
        if parsed is None or not check_type(allowed(kind), parsed.value, findings, line=number):
            continue
        in_order = [one.name for one in fields(kind) if one.name in parsed.value]
        if orjson.dumps(parsed.value) != line or list(parsed.value) != in_order:
            findings.add(NOT_OUR_BYTES, line=number)
        check_values(parsed.value, findings, line=number)
        _see_names(parsed.value, findings)
    census.results += len(lines)


def check_summary(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check the summary of a replay."""
    parsed = parsed_or_found(data, findings)
    if parsed is None or not isinstance(parsed.value, dict):
        findings.add("expected an object")
        return
    body = dict(parsed.value)
    if body.pop("format", None) not in [{"name": FORMAT_NAME, "version": version} for version in _VERSIONS]:
        findings.add(f"expected the name {FORMAT_NAME!r} and a version from 1 to {FORMAT_VERSION}", field="format")
        return
    if not check_type(allowed(Summary), body, findings):
        return
    if orjson.dumps(parsed.value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2) != data:
        findings.add(NOT_OUR_BYTES)
    check_values(body["setup"], findings)
    check_values(body["duration_s"], findings)
    _see_names(body["setup"], findings)
    notes = [*(body.get("notes") or ()), *_said_by_gates(body.get("validity"))]
    if notes:
        findings.see("notes to read", f"{len(notes)}-in-summary")


RESULT_KINDS = (
    Kind("results", lambda name, head: name == REQUESTS_FILE, partial(check_lines, kind=RequestResult)),
    Kind("sessions", lambda name, head: name == SESSIONS_FILE, partial(check_lines, kind=SessionResult)),
    Kind("server samples", lambda name, head: name == SERVER_FILE, partial(check_lines, kind=ServerSample)),
    Kind("GPU samples", lambda name, head: name == GPUS_FILE, partial(check_lines, kind=GpuSample)),
    Kind("timeline", lambda name, head: name == TIMELINE_FILE, partial(check_lines, kind=Bin)),
    Kind("summary", lambda name, head: f'"{FORMAT_NAME}"'.encode() in head[:200], check_summary),
)


def _said_by_gates(validity: dict[str, Any] | None) -> list[str]:
    return [gate["says"] for gate in validity["gates"] if gate.get("says")] if validity else []


def _see_names(values: dict[str, Any], findings: FileFindings) -> None:
    for name in _PUBLIC:
        if isinstance(values.get(name), str):
            findings.see(name.replace("_", " "), values[name])


@cache
def allowed(kind: type) -> Any:
    """Return the strict type of what is written of a class; raise KeyError where the form of a string is not known.

    A field with a default may be missing, as it is in results of an older version.
    """
    hints = get_type_hints(kind, include_extras=True)
    hidden = NOT_WRITTEN if kind is Summary else frozenset()
    written = [one for one in fields(kind) if one.name not in hidden]
    members = {one.name: (_strict(hints[one.name], one.name), _default(one)) for one in written}
    return create_model(kind.__name__, __config__=ConfigDict(extra="forbid"), **members)  # type: ignore[call-overload]


def _default(one: Field[Any]) -> Any:
    return ... if one.default is MISSING and one.default_factory is MISSING else None


def _strict(annotation: Any, name: str) -> Any:
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is str:
        return _STRINGS[name]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Literal[tuple(one.value for one in annotation)]
    if is_dataclass(annotation):
        return allowed(annotation)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        return Union[tuple(_strict(one, name) for one in inner)]  # noqa: UP007
    if origin is tuple:
        return tuple[tuple(one if one is ... else _strict(one, name) for one in inner)]  # type: ignore[misc]
    if origin is dict:
        return dict[Literal[tuple(one.value for one in FailureKind)], _INTEGER]  # type: ignore[misc]
    return {int: _INTEGER, float: _NUMBER, bool: _FLAG}.get(annotation, annotation)
