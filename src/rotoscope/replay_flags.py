"""The options that every command has which replays: how the server is asked, what is replayed, how it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotoscope.loading import loading
from rotoscope.options import AssumeGrowth, BlockSize, KeyVariable, Model

if TYPE_CHECKING:
    from rotoscope.replayer.load.mix import Share
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.traces.formats.recognise import LabelledTrace

TracePaths = Annotated[
    list[str],
    typer.Argument(
        help="Trace files or folders, ours or foreign; all of them are replayed.",
        metavar="PATH",
        default_factory=list,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFlags:
    """One field an option."""

    model: Model = None
    engine: Annotated[
        str | None, typer.Option(help="What runs behind the URL, if the server does not say it.", metavar="NAME")
    ] = None
    api: Annotated[
        str,
        typer.Option(
            help="completions, generate (token ids), chat, responses, messages (words); auto: the first it takes.",
            metavar="NAME",
        ),
    ] = "auto"
    assume_growth: AssumeGrowth = False
    fixed: Annotated[
        str | None,
        typer.Option(
            help="No traces, but sessions of one request of this shape each, in tokens, that share nothing.",
            metavar="ISL:OSL",
        ),
    ] = None
    mix: Annotated[
        str | None,
        typer.Option(help="Weights of the paths, such as 3:1; so many of the sessions perform one of their traces."),
    ] = None
    duration: Annotated[
        float | None,
        typer.Option(help="Let no session in after so many seconds; those in flight end.", metavar="S", min=0),
    ] = None
    warm_up: Annotated[
        str | None,
        typer.Option(
            help="Send shared prefixes so often before the run: auto (once a replica, if the server tells) or a number.",
            metavar="TIMES",
        ),
    ] = None
    until_ci: Annotated[
        str | None,
        typer.Option(
            help="Let no session in once half the 95 % interval of jobs/h is this much of it, such as 5%.",
            metavar="P%",
        ),
    ] = None
    ramp: Annotated[
        float, typer.Option(help="Seconds over which the first sessions start, at random times.", metavar="S", min=0)
    ] = 0.0
    seed: Annotated[int, typer.Option(help="Seed of the random token ids and of the times of starts.")] = 0
    goodput: Annotated[
        str | None,
        typer.Option(
            help="Count answers within these limits in seconds, of ttft, itl, tpot, latency: ttft:2,itl:0.05.",
            metavar="LIMITS",
        ),
    ] = None
    gpus: Annotated[int | None, typer.Option(help="GPUs behind the server, for jobs/h/GPU.", min=1)] = None
    dcgm: Annotated[
        str | None,
        typer.Option(help="DCGM exporter of the server's GPUs, for power and energy: http://HOST:9400.", metavar="URL"),
    ] = None
    max_batch: Annotated[
        int | None,
        typer.Option(help="Most requests in the server's batch, for the batch fill, if it does not tell.", min=1),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(help="Engine profile of the optimum; a simulator's own, else the widest, if not given."),
    ] = None
    block_size: BlockSize = None
    vocab: Annotated[
        str | None, typer.Option(help="Token ids to use, LOW to HIGH - 1; asked of the server.", metavar="LOW:HIGH")
    ] = None
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="Its tokenizer.json or .tiktoken, for words, if the server has no /tokenize.", metavar="FILE"
        ),
    ] = None
    timeout: Annotated[float, typer.Option(help="Longest silence of the server in seconds.")] = 600.0
    gaps: Annotated[
        str, typer.Option(help="What is waited for between calls: recorded (all), tools, none.", metavar="KIND")
    ] = "recorded"
    gap_scale: Annotated[float, typer.Option(help="Factor on the time of tools and waits.", min=0)] = 1.0
    gap_cap: Annotated[float | None, typer.Option(help="Longest gap between answer and next request, s.", min=0)] = None
    preflight: Annotated[bool, typer.Option(help="Try the server with a few small requests first.")] = True
    skip_gate: Annotated[
        list[str] | None,
        typer.Option(help="Gate of validity that is not checked; may be given again.", metavar="NAME"),
    ] = None
    api_key_env: KeyVariable = None

    def options(self, url: str | None) -> ReplayOptions:
        """Return what a replay is told by these; the mix is known once the paths are opened."""
        with loading():
            from rotoscope.keys import api_key_in
            from rotoscope.replayer.gates.gate import gates_named
            from rotoscope.replayer.limits import Limits
            from rotoscope.replayer.load.fixed import Shape
            from rotoscope.replayer.load.warm_up import parse_times
            from rotoscope.replayer.options import ReplayOptions
            from rotoscope.replayer.precision import parse_half_width
            from rotoscope.replayer.schedule import Gaps, gap_kind
            from rotoscope.replayer.tokens import Vocabulary

        return ReplayOptions(
            url=url,
            model=self.model,
            engine=self.engine,
            api=self.api,
            preflight=self.preflight,
            fixed=None if self.fixed is None else Shape.parse(self.fixed),
            duration_s=self.duration,
            warm_up=None if self.warm_up is None else parse_times(self.warm_up),
            until_ci=None if self.until_ci is None else parse_half_width(self.until_ci),
            ramp_s=self.ramp,
            seed=self.seed,
            limits=None if self.goodput is None else Limits.parse(self.goodput),
            gpus=self.gpus,
            dcgm=self.dcgm,
            max_batch=self.max_batch,
            profile=self.profile,
            block_size=self.block_size,
            vocabulary=Vocabulary.parse(self.vocab) if self.vocab else None,
            tokenizer=self.tokenizer,
            timeout_s=self.timeout,
            gaps=Gaps(gap_kind(self.gaps), scale=self.gap_scale, cap_s=self.gap_cap),
            skipped_gates=gates_named(self.skip_gate or ()),
            api_key=api_key_in(self.api_key_env),
        )

    def opened(
        self, paths: list[str], say: Callable[[str], None]
    ) -> tuple[list[LabelledTrace], tuple[Share, ...] | None]:
        """Return the traces of all paths or of the fixed shape, and the weights of paths where there is a mix."""
        with loading():
            from rotoscope.traces.assume_growth import assume_growth_of
            from rotoscope.traces.errors import UnusableInput

        if bool(paths) == (self.fixed is not None):
            raise UnusableInput(
                "name traces to replay, or a shape with --fixed; " + ("not both" if paths else "there is neither")
            )
        if self.fixed is not None and self.mix is not None:
            raise UnusableInput("a mix weighs the paths of traces: leave out --mix, or --fixed")
        if self.fixed is not None:
            return [_of_fixed_shape(self.fixed)], None
        traces, shares = _opened(paths, self.mix)
        if self.assume_growth:
            traces, said = assume_growth_of(traces)
            say(said)
        return traces, shares


def _of_fixed_shape(text: str) -> LabelledTrace:
    from rotoscope.replayer.load.fixed import Shape
    from rotoscope.traces.corpus import Member
    from rotoscope.traces.formats.recognise import LabelledTrace

    return LabelledTrace(text, Path(text), Member(name="", trace=Shape.parse(text).trace()))


def _opened(paths: list[str], mix: str | None) -> tuple[list[LabelledTrace], tuple[Share, ...] | None]:
    with loading():
        from rotoscope.replayer.load.mix import Share, parse_weights
        from rotoscope.traces.formats.recognise import open_traces

    if mix is None:
        return open_traces(paths), None
    weights = parse_weights(mix, paths=len(paths))
    groups = [open_traces([path]) for path in paths]
    shares = tuple(Share(len(group), weight) for group, weight in zip(groups, weights, strict=True))
    return [one for group in groups for one in group], shares
