"""`rotoscope replay`: perform traces against a server and measure it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.loading import loading
from rotoscope.options import AssumeGrowth, BlockSize, KeyVariable, Model

if TYPE_CHECKING:
    from rotoscope.replayer.load.mix import Share
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.replayer.summary import Summary
    from rotoscope.traces.formats.recognise import LabelledTrace
    from rotoscope.traces.model import Trace


def replay(
    paths: Annotated[
        list[str],
        typer.Argument(help="Trace files or folders, ours or foreign; all of them are replayed.", metavar="PATH"),
    ],
    url: Annotated[str, typer.Option(help="Server, with or without /v1.")],
    model: Model = None,
    engine: Annotated[
        str | None, typer.Option(help="What runs behind the URL, if the server does not say it.", metavar="NAME")
    ] = None,
    api: Annotated[
        str,
        typer.Option(
            help="completions, generate (token ids), chat, responses, messages (words); auto: the first it takes.",
            metavar="NAME",
        ),
    ] = "auto",
    assume_growth: AssumeGrowth = False,
    sessions: Annotated[
        int | None,
        typer.Option(help="Sessions, to which the traces are dealt in turn; one a trace if not given.", min=1),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(help="Weights of the paths, such as 3:1; so many of the sessions perform one of their traces."),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(help="Let no session in after so many seconds; those in flight end.", metavar="S", min=0),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Sessions in flight; 1 if neither this nor --rate is given.", min=1)
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Let sessions in at this rate whatever the server does, with its unit: 720/h, 12/min, 0.2/s.",
            metavar="R",
        ),
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            help="constant, poisson (if not given), gamma:CV or recorded: how starts are spread in time.",
            metavar="KIND",
        ),
    ] = None,
    ramp: Annotated[
        float, typer.Option(help="Seconds over which the first sessions start, at random times.", metavar="S", min=0)
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the random token ids and of the times of starts.")] = 0,
    salt: Annotated[
        str | None,
        typer.Option(help="Second seed; fresh for each run if not given, so that no run hits another's cache."),
    ] = None,
    goodput: Annotated[
        str | None,
        typer.Option(
            help="Count answers within these limits in seconds, of ttft, itl, tpot, latency: ttft:2,itl:0.05.",
            metavar="LIMITS",
        ),
    ] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs behind the server, for jobs/h/GPU.", min=1)] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Engine profile of the optimum; a simulator's own, else the widest, if not given."),
    ] = None,
    block_size: BlockSize = None,
    vocab: Annotated[
        str | None, typer.Option(help="Token ids to use, LOW to HIGH - 1; asked of the server.", metavar="LOW:HIGH")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="Its tokenizer.json or .tiktoken, for words, if the server has no /tokenize.", metavar="FILE"
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Longest silence of the server in seconds.")] = 600.0,
    gap_scale: Annotated[float, typer.Option(help="Factor on the time of tools and waits.", min=0)] = 1.0,
    gap_cap: Annotated[
        float | None, typer.Option(help="Longest gap between answer and next request, s.", min=0)
    ] = None,
    no_gaps: Annotated[bool, typer.Option("--no-gaps", help="Do not wait for tools and people.")] = False,
    preflight: Annotated[bool, typer.Option(help="Try the server with a few small requests first.")] = True,
    api_key_env: KeyVariable = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the results; results/replay-<n> if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of tables.")] = False,
) -> None:
    """Replay traces with random token ids and report latencies, jobs an hour and the hit rate beside its optimum.

    Some sessions failed: exit code 3; all of them: 1; interrupted: 130, with what was measured.

    Example: rotoscope replay traces --url http://127.0.0.1:8000 --sessions 64 --concurrency 16
    """
    with loading():
        from rotoscope.keys import api_key_in
        from rotoscope.replayer.limits import Limits
        from rotoscope.replayer.load.arrivals import Arrivals
        from rotoscope.replayer.load.rate import rate_per_h
        from rotoscope.replayer.load.recorded import recorded_starts_s
        from rotoscope.replayer.options import ReplayOptions
        from rotoscope.replayer.schedule import Gaps
        from rotoscope.replayer.tokens import Vocabulary
        from rotoscope.traces.assume_growth import assume_growth_of

    options = ReplayOptions(
        url=url,
        model=model,
        engine=engine,
        api=api,
        preflight=preflight,
        sessions=sessions,
        duration_s=duration,
        concurrency=concurrency,
        rate_per_h=None if rate is None else rate_per_h(rate),
        arrivals=None if arrivals in (None, "recorded") else Arrivals.parse(arrivals),
        ramp_s=ramp,
        seed=seed,
        salt=salt,
        limits=None if goodput is None else Limits.parse(goodput),
        gpus=gpus,
        profile=profile,
        block_size=block_size,
        vocabulary=Vocabulary.parse(vocab) if vocab else None,
        tokenizer=tokenizer,
        timeout_s=timeout,
        gaps=Gaps(scale=0.0 if no_gaps else gap_scale, cap_s=gap_cap),
        api_key=api_key_in(api_key_env),
        folder=output,
    )
    traces, shares = _opened(paths, mix)
    options = replace(options, mix=shares)
    if arrivals == "recorded":
        options = replace(options, recorded_starts_s=recorded_starts_s(traces))
    if assume_growth:
        traces, said = assume_growth_of(traces)
        _say(said)
    summary = _run([opened.trace for opened in traces], options)
    _print(summary, as_json=as_json)
    raise typer.Exit(summary.exit_code)


def _opened(paths: list[str], mix: str | None) -> tuple[list[LabelledTrace], tuple[Share, ...] | None]:
    """Return the traces of all paths, and the weights of their paths where they have any."""
    with loading():
        from rotoscope.replayer.load.mix import Share, parse_weights
        from rotoscope.traces.formats.recognise import open_traces

    if mix is None:
        return open_traces(paths), None
    weights = parse_weights(mix, paths=len(paths))
    groups = [open_traces([path]) for path in paths]
    shares = tuple(Share(len(group), weight) for group, weight in zip(groups, weights, strict=True))
    return [one for group in groups for one in group], shares


def _run(traces: list[Trace], options: ReplayOptions) -> Summary:
    with loading():
        from rotoscope.replayer.progress import progress_line
        from rotoscope.replayer.run import replay

    if not sys.stderr.isatty():
        return replay(traces, options, say=_say)
    with progress_line(sys.stderr) as show:
        return replay(traces, options, say=_say, watch=show)


def _say(text: str) -> None:
    start_of_line = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start_of_line}{text}\n")


def _print(summary: Summary, *, as_json: bool) -> None:
    import orjson

    from rotoscope.replayer.table import DISTRIBUTION_HEADINGS, distribution_rows, outcome_rows
    from rotoscope.tables import print_table

    if as_json:
        typer.echo(orjson.dumps(summary.as_dict(), option=orjson.OPT_INDENT_2))
        return
    print_table(("replay", "", "what it is"), outcome_rows(summary))
    typer.echo()
    print_table(DISTRIBUTION_HEADINGS, distribution_rows(summary), right=range(1, 6))
