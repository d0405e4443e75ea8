"""What agents tell of themselves, on its way from their processes into the recorder of their run.

A batch of marks is a JSON object, `{"teller": id, "batch": n, "now_s": t, "marks": [...], "lost": {kind: n, ...}}`. Its
sender numbers the batches, so that one that is sent twice, because its answer was lost, counts once. `lost` is how much
of each kind its sender lost or did not end since it last said so, and may be left out. Times are those of the sender's
monotonic clock, which is ours where it is on this machine; of another one the least difference that was seen counts,
as no batch takes less than no time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, ClassVar, Literal, TypeAlias

import orjson
from aiohttp import web
from pydantic import AllowInfNan, ConfigDict, Field, Strict, StringConstraints, TypeAdapter, ValidationError

from rotoscope.proxy.door import is_loopback
from rotoscope.proxy.relay import gateway_error
from rotoscope.proxy.runs import Runs
from rotoscope.recorder.losses import PHRASES, Loss
from rotoscope.recorder.marks import BranchMark, JoinMark, Mark, ToolMark, WaitMark
from rotoscope.recorder.recorded_run import Run, Teller
from rotoscope.traces.model import MAX_COUNT, WaitKind

MOST_BYTES = 1 << 20
MOST_MARKS = 5000
MOST_CHARS = 1024
"""Of a name."""
LONGEST_TRANSIT_S = 60.0
"""A batch that took longer by its clock than this, or less than no time, was sent by another clock, port forwarded."""
MOST_TELLERS = 10_000

_FURTHEST_S = 1e10
_STRICT = ConfigDict(extra="forbid", strict=True)

_Name: TypeAlias = Annotated[str, StringConstraints(strict=True, max_length=MOST_CHARS)]
_Seconds: TypeAlias = Annotated[float, Strict(), AllowInfNan(False), Field(ge=-_FURTHEST_S, le=_FURTHEST_S)]


@dataclass(frozen=True, slots=True)
class _Tool:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    mark: Literal["tool"]
    name: _Name = field(repr=False)
    thread: _Name = field(repr=False)
    start_s: _Seconds
    end_s: _Seconds

    def told(self, later_s: float) -> Mark:
        return ToolMark(self.name, self.thread, self.start_s + later_s, self.end_s + later_s)


@dataclass(frozen=True, slots=True)
class _Wait:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    mark: Literal["wait"]
    kind: WaitKind
    thread: _Name = field(repr=False)
    start_s: _Seconds
    end_s: _Seconds

    def told(self, later_s: float) -> Mark:
        return WaitMark(self.kind, self.thread, self.start_s + later_s, self.end_s + later_s)


@dataclass(frozen=True, slots=True)
class _Branch:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    mark: Literal["branch"]
    thread: _Name = field(repr=False)
    parent: _Name = field(repr=False)
    region: _Name = field(repr=False)
    start_s: _Seconds

    def told(self, later_s: float) -> Mark:
        return BranchMark(self.thread, self.parent, self.region, self.start_s + later_s)


@dataclass(frozen=True, slots=True)
class _Join:
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    mark: Literal["join"]
    region: _Name = field(repr=False)
    end_s: _Seconds

    def told(self, later_s: float) -> Mark:
        return JoinMark(self.region, self.end_s + later_s)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a process tells at once."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT
    teller: _Name = field(repr=False)
    batch: Annotated[int, Strict(), Field(ge=0)]
    now_s: _Seconds
    marks: Annotated[
        list[Annotated[_Tool | _Wait | _Branch | _Join, Field(discriminator="mark")]], Field(max_length=MOST_MARKS)
    ]
    lost: dict[Loss, Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]] = field(default_factory=dict)


async def take_marks(request: web.BaseRequest, runs: Runs, *, run: str, port: str) -> web.Response:
    """Take in a batch; its run is found as that of a call is, and begins where it is not open if there are marks."""
    body = await _read(request)
    if body is None:
        return gateway_error(413, f"a batch of marks has at most {MOST_BYTES:,} bytes")
    received_s = time.monotonic()
    try:
        batch = read_batch(body)
    except ValidationError as error:
        return gateway_error(400, f"this is no batch of marks: {_what_is_wrong(error)}")
    try:
        find = runs.find if batch.marks else runs.find_open
        found = find(request.headers, name=run, port=port)
    except Exception as error:  # noqa: BLE001 - as where a call comes, and what it says may hold content
        return gateway_error(503, f"no run can begin ({type(error).__name__})")
    if found is None:
        return gateway_error(404, "the run that something was lost of is not open")
    found.last_s = received_s
    is_here = is_loopback(request.remote or "")
    taken = take(found, batch, received_s, is_here=is_here)
    runs.marks += taken
    runs.was_told(found)
    return web.Response(body=orjson.dumps({"taken": taken}), content_type="application/json")


def read_batch(body: bytes) -> Batch:
    """Read a batch; raise ValidationError where it is none."""
    return _reader().validate_json(body)


def take(run: Run, batch: Batch, received_s: float, *, is_here: bool) -> int:
    """Hand a batch to the recorder unless it has come before; return how many marks were taken.

    `is_here` says that it came from this machine, as far as can be seen.
    """
    if batch.teller not in run.tellers and len(run.tellers) >= MOST_TELLERS:
        run.tellers.clear()
    teller = run.tellers.setdefault(batch.teller, Teller())
    if batch.batch <= teller.batch:
        return 0
    teller.batch = batch.batch
    behind_s = received_s - batch.now_s
    if is_here and 0 <= behind_s <= LONGEST_TRANSIT_S:
        behind_s = 0.0
    teller.offset_s = min(teller.offset_s, behind_s)
    run.recorder.mark([mark.told(teller.offset_s) for mark in batch.marks])
    run.lost.update(batch.lost)
    for mark in batch.marks:
        if isinstance(mark, _Branch) and mark.region not in run.over:
            run.at_work.add(mark.region)
        elif isinstance(mark, _Join):
            run.over.add(mark.region)
            run.at_work.discard(mark.region)
    return len(batch.marks)


async def _read(request: web.BaseRequest) -> bytes | None:
    """Return the body, None where it is too long."""
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


@cache
def _reader() -> TypeAdapter[Batch]:
    return TypeAdapter(Batch)


def _what_is_wrong(error: ValidationError) -> str:
    """Return where a batch is wrong and how, in our words alone: those of pydantic may repeat what came."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = [str(part) for part in first["loc"] if isinstance(part, int) or part in _PLACES]
    return f"{'.'.join(place) or 'the whole'}: {first['type'].replace('_', ' ')}"


_PLACES = {
    *("batch", "branch", "end_s", "join", "kind", "mark", "marks", "name", "now_s", "parent", "region", "start_s"),
    *("teller", "thread", "tool", "wait", "lost", *PHRASES),
}
