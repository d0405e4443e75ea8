"""What a run is, as it may be told to anybody: nothing about the machine, the person or the server's address."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rotoscope import __version__
from rotoscope.replayer.calibration import Calibration, Source
from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.gates.gate import GateName
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.load.fixed import Shape
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import DEFAULT_PROFILE, ReplayOptions
from rotoscope.replayer.schedule import GapKind
from rotoscope.replayer.server import DEFAULT_VOCABULARY, Server
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.replayer.told_command import command_of
from rotoscope.traces.analysis.profiles import PROFILES, EngineProfile, profile_named
from rotoscope.traces.corpus import CorpusName, sha256_of
from rotoscope.traces.model import Trace

_PATH = re.compile(r"^([/~.\\]|[A-Za-z]:[/\\])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What was run."""

    version: str
    """Of Rotoscope."""
    command: str | None = None
    """How to do the same again; the traces, the URL and what is private left out."""
    corpus_name: str | None = None
    """What the traces are called together; None where they have no name."""
    corpus_version: str | None = None
    corpus_sha256: str | None = None
    """Of the traces, as `rotoscope.traces.corpus.sha256_of` gives it."""
    model: str
    engine: str
    server_version: str | None = None
    """As the server tells it."""
    simulated: bool
    """Whether the server is a simulator: its times are modelled."""
    api: str = "completions"
    """How the server was asked."""
    words: int | None = None
    """How many words prompts of messages are made of; None for prompts of token ids, like the next."""
    template: ChatTemplate | None = None
    """Tokens that the server puts around the contents of messages."""
    tokens_from: Source | None = None
    """Whether words and template are known from the server's tokenizer, or only from its usage."""
    profile: str
    """Engine profile of the optimum."""
    block_size: int
    seed: int
    salt: str
    vocabulary: str
    """LOW:HIGH, ids from LOW to HIGH - 1; of words, their numbers."""
    traces: int
    sessions: int
    """At most, where there is a duration."""
    concurrency: int | None
    """Sessions in flight; None where their starts were planned."""
    concurrency_assumed: bool | None = None
    """Whether nobody gave one; None where that is not known."""
    rate_per_h: float | None = None
    """At which sessions were let in; None in a closed loop, and where it is the recorded one."""
    arrivals: str | None = None
    """How they were spread in time; None in a closed loop."""
    fixed: Shape | None = None
    """Of all requests, where they are not those of recorded traces."""
    mix: tuple[float, ...] | None = None
    """Weights of the paths that were given; None dealt all traces in turn."""
    duration_s: float | None = None
    """After which no session was let in."""
    until_ci: float | None = None
    """Half of the interval of jobs/h, over jobs/h, from which on no session was let in."""
    ramp_s: float = 0.0
    """Over which the first sessions started."""
    gaps: GapKind = "recorded"
    """What was kept of the gaps between calls."""
    gap_scale: float
    gap_cap_s: float | None
    timeout_s: float
    limits: Limits | None = None
    """Within which an answer is a good one."""
    gpus: int
    gpus_assumed: bool
    max_batch: int | None = None
    """Most requests in the server's batch, as given or as a simulator tells."""
    skipped_gates: tuple[GateName, ...] = ()
    """Of validity, which were not to be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What was asked for, and of which traces."""

    command: str
    called: CorpusName | None
    sha256: str


def identity_of(
    traces: Sequence[Trace], options: ReplayOptions, *, simulated: Mapping[str, str] | None = None
) -> Identity:
    """Return what a run of traces is told by; `options` are those that were given, `simulated` a simulator's settings."""
    assumes_growth = any(trace.outputs == "assumed" for trace in traces)
    return Identity(
        command=command_of(options, assumes_growth=assumes_growth, simulated=simulated),
        called=options.corpus,
        sha256=sha256_of(traces),
    )


def setup_of(
    options: ReplayOptions,
    server: Server,
    *,
    traces: int,
    sessions: int,
    profile: EngineProfile,
    vocabulary: Vocabulary,
    calibration: Calibration | None = None,
    identity: Identity | None = None,
) -> Setup:
    """Gather what is told of a run; `calibration` is of prompts of messages."""
    called = identity.called if identity else None
    return Setup(
        version=__version__,
        command=identity.command if identity else None,
        corpus_name=called.name if called else None,
        corpus_version=called.version if called else None,
        corpus_sha256=identity.sha256 if identity else None,
        model=public_model_name(server.model),
        engine=server.engine.name,
        server_version=server.version,
        simulated=server.simulated,
        api=options.api,
        words=len(calibration.words) if calibration else None,
        template=calibration.template if calibration else None,
        tokens_from=calibration.tokens_from if calibration else None,
        profile=profile.name,
        block_size=profile.block_size,
        seed=options.seed,
        salt=secrets.token_hex(8) if options.salt is None else options.salt,
        vocabulary=str(vocabulary),
        traces=traces,
        sessions=sessions,
        concurrency=None if options.is_open_loop else options.concurrency or 1,
        concurrency_assumed=options.concurrency is None,
        rate_per_h=options.rate_per_h,
        arrivals=options.arrivals_named,
        fixed=options.fixed,
        mix=tuple(share.weight for share in options.mix) if options.mix else None,
        duration_s=options.duration_s,
        until_ci=options.until_ci,
        ramp_s=options.ramp_s,
        gaps=options.gaps.kind,
        gap_scale=options.gaps.scale,
        gap_cap_s=options.gaps.cap_s,
        timeout_s=options.timeout_s,
        limits=options.limits,
        gpus=options.gpus or 1,
        gpus_assumed=options.gpus is None,
        max_batch=options.max_batch or server.max_batch,
        skipped_gates=options.skipped_gates,
    )


def choose_profile(options: ReplayOptions, server: Server) -> EngineProfile:
    """Return the profile given, else the one that a simulator names with its block size, else the widest."""
    if options.profile is None and server.profile in PROFILES:
        return profile_named(server.profile, block_size=options.block_size or server.block_size)
    return profile_named(options.profile or DEFAULT_PROFILE, block_size=options.block_size)


def choose_vocabulary(options: ReplayOptions, server: Server, notes: Notes) -> Vocabulary:
    """Return the ids given, else the server's, else a default, of which a note is made."""
    known = options.vocabulary or server.vocabulary
    if known is not None:
        return known
    notes.add(
        f"the server does not tell its vocabulary: prompts hold ids {DEFAULT_VOCABULARY}, give --vocab for others"
    )
    return DEFAULT_VOCABULARY


def public_model_name(model: str) -> str:
    """Return a model's name; of a path, which llama-server may give, only the last part."""
    return re.split(r"[/\\]", model.rstrip("/\\"))[-1] if _PATH.match(model) else model
