"""`rotoscope convert`: write traces in another format, with an account of what is kept, approximated and lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from rotoscope.options import AssumeGrowth

if TYPE_CHECKING:
    from rotoscope.traces.formats.fidelity import Fidelity
    from rotoscope.traces.formats.recognise import LabelledTrace
    from rotoscope.traces.formats.registry import Writable

_FORMATS = (
    "rotoscope, trtllm, weka, dynamo, tracelab, tracelab-csv, vcr, mooncake-agentic-v2, mooncake-agentic, mooncake-delta, "
    "mooncake-sessions, mooncake, otlp, otlp-protobuf"
)
"""Those of the registry and spans; neither is imported for the help."""


def convert(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Trace files or folders in any format, `-` for standard input; then the file or folder to write.",
            metavar="IN... OUT",
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"Format to write: {_FORMATS}.")] = "rotoscope",
    block_size: Annotated[
        int | None, typer.Option(help="Tokens a block in the file, instead of the format's usual.", min=1)
    ] = None,
    assume_growth: AssumeGrowth = False,
    started_at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When the first run began, for spans, such as 2026-01-31T09:00:00Z; without it the last one ends now.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """Convert traces between formats and tell on stderr what was kept, approximated and lost.

    Example: rotoscope convert traces/coder coder.jsonl --to mooncake
    """
    from rotoscope.traces.assume_growth import assume_growth_of
    from rotoscope.traces.errors import UnusableInput
    from rotoscope.traces.formats.convert import Target
    from rotoscope.traces.formats.convert import convert as write
    from rotoscope.traces.formats.fidelity import Fidelity
    from rotoscope.traces.formats.recognise import open_traces

    *inputs, out = paths
    if not inputs:
        raise UnusableInput("expected what to read and where to write: rotoscope convert IN... OUT --to FORMAT")
    target = Target(path=out, format=_format_named(to, started_at), block_size=block_size, overwrites=force)
    reading, writing = Fidelity(), Fidelity()
    traces = open_traces(inputs, reading)
    if assume_growth:
        traces, said = assume_growth_of(traces)
        sys.stderr.write(f"{said}\n")
    with ended_in_order():
        files = write(traces, target, writing)
    calls = sum(1 for one in traces for _ in one.trace.calls())
    sys.stderr.write(f"{target.format.title}: traces {len(traces)}, calls {calls}, files {files}\n")
    _account("reading", reading)
    _account("writing", writing)
    if target.format.name == "trtllm":
        _list_unlike(traces)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM end what is within like an error, so that no half of a file or folder stays behind."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _format_named(name: str, started_at: str | None) -> Writable:
    from rotoscope.sdk.otlp.written_formats import span_formats
    from rotoscope.traces.errors import UnusableInput
    from rotoscope.traces.formats.registry import named, written_formats

    spans = span_formats(started_at)
    found = named(name, [*written_formats(), *spans])
    if started_at is not None and found not in spans:
        raise UnusableInput(f"{found.title} does not say when runs were: leave out --started-at")
    return found


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _list_unlike(traces: list[LabelledTrace]) -> None:
    """Say what TensorRT-LLM's replay of the files does otherwise than the traces say."""
    from rotoscope.traces.formats.trtllm_unlike import unlike

    found = [(one.name, what) for one in traces for what in unlike(one.trace)]
    calls = sum(what.what == "call" for _, what in found)
    sys.stderr.write(f"  replay by TensorRT-LLM: {calls} calls are not as they were\n")
    for name, what in found:
        sys.stderr.write(f"  {name}: {what}\n")


def _account(step: str, fidelity: Fidelity) -> None:
    for line in fidelity.lines():
        sys.stderr.write(f"  {step}: {line}\n")
