"""What a replay is told: one value an option of the command line, checked once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from yarl import URL

from rotoscope.replayer.backends.apis import api_named
from rotoscope.replayer.backends.engines import engine_named
from rotoscope.replayer.gates.gate import GateName
from rotoscope.replayer.gpu_telemetry.source import dcgm_url
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.load.arrivals import POISSON, Arrivals
from rotoscope.replayer.load.fixed import Shape
from rotoscope.replayer.load.mix import Share
from rotoscope.replayer.load.warm_up import Times
from rotoscope.replayer.schedule import Gaps
from rotoscope.replayer.server import api_url
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.corpus import CorpusName
from rotoscope.traces.errors import UnusableInput

AUTO_API = "auto"
"""Stands for prompts of token ids where the server takes them, else for chat."""
DEFAULT_PROFILE = "token"
"""One token a block and outputs kept: no engine can reuse more."""

MOST = 10**9
"""Of whatever is counted, and of seconds: more is a slip, and files of results hold no number of any size."""
LEAST = 1e-6
"""Of what is measured and not 0: less is a slip too."""
MOST_PLANNED = 1_000_000
"""Sessions; their results are kept in memory until the run is over."""
_SALT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How traces are replayed; raises UnusableInput for values that cannot be."""

    url: str | None = None
    """Of the server, with or without `/v1`; None for a run in modelled time, which asks none."""
    model: str | None = None
    """None asks the server, which must offer exactly one."""
    engine: str | None = None
    """What runs behind the URL; None believes what the server says, if it says it."""
    api: str = AUTO_API
    """How it is asked; prompts are token ids or messages, as the API takes them."""
    preflight: bool = True
    """Whether a few small requests before the run try the server."""
    sessions: int | None = None
    """None performs each trace once, or as many as there is time for."""
    mix: tuple[Share, ...] | None = None
    """Of which traces more sessions are, all traces in their order; None deals all of them in turn."""
    fixed: Shape | None = None
    """Of all requests, where no recorded traces are performed; the trace is its own."""
    duration_s: float | None = None
    """After which no session is let in; those in flight end."""
    until_ci: float | None = None
    """Half of the interval of jobs/h, over jobs/h, from which on no session is let in; of a closed loop only."""
    concurrency: int | None = None
    """Sessions in flight; None is one, unless there is a rate."""
    rate_per_h: float | None = None
    """At which sessions are let in, however many are in flight; None lets one in when another ends."""
    arrivals: Arrivals | None = None
    """How these are spread in time; None is a Poisson process."""
    recorded_starts_s: tuple[float, ...] | None = field(default=None, repr=False)
    """When each trace started, for sessions that are let in as recorded; at the rate, if there is one."""
    warm_up: Times | None = None
    """How often shared prefixes are sent before the run; None begins with a server as it is."""
    ramp_s: float = 0.0
    """Over which the first sessions start; 0 starts them at once."""
    corpus: CorpusName | None = None
    """What the traces are called together; None where they have no name."""
    seed: int = 0
    salt: str | None = None
    """None draws a fresh one: with an old one, a server that was not restarted still has the prompts in its cache."""
    limits: Limits | None = None
    """Within which an answer is a good one; None counts no good ones."""
    gpus: int | None = None
    """None assumes one."""
    dcgm: str | None = None
    """URL of a DCGM exporter that tells of the server's GPUs; None asks the driver, if the server is on this machine."""
    max_batch: int | None = None
    """Most requests in the server's batch, of all replicas together; None believes what the server tells, if it does."""
    profile: str | None = None
    """Engine profile of the optimum; None takes the one a simulator names, else `token`, which bounds every engine."""
    block_size: int | None = None
    """Tokens a block of the server's cache; None takes the profile's."""
    vocabulary: Vocabulary | None = None
    """Ids that prompts may hold; None asks the server."""
    tokenizer: Path | None = None
    """Vocabulary from which words are taken where the server tells nothing of its tokens but their number."""
    timeout_s: float = 600.0
    """Longest silence of a server, before its answer and within it."""
    gaps: Gaps = field(default_factory=Gaps)
    api_key: str | None = field(default=None, repr=False)
    skipped_gates: tuple[GateName, ...] = ()
    """Gates of validity that are not checked."""
    folder: Path | None = None
    """Where results go; None makes results/replay-<n>."""

    def __post_init__(self) -> None:
        if self.url is not None and self.server_url.user and self.api_key is not None:
            raise UnusableInput("expected an API key or a user in the URL, not both")
        for name in ("sessions", "concurrency", "gpus", "max_batch", "block_size"):
            value, most = getattr(self, name), MOST_PLANNED if name == "sessions" else MOST
            if value is not None and not 1 <= value <= most:
                raise UnusableInput(f"{name} must be at least 1 and at most {most:,}, not {value}")
        if not -(2**63) <= self.seed < 2**63:
            raise UnusableInput(f"a seed is a whole number of up to 64 bits, with its sign, not {self.seed}")
        if self.dcgm is not None:
            dcgm_url(self.dcgm)
        self._check_load()
        if not 0 <= self.ramp_s < inf:
            raise UnusableInput(f"the ramp must be 0 seconds or more, not {self.ramp_s}")
        if not 0 < self.timeout_s < inf:
            raise UnusableInput(f"the timeout must be more than 0 seconds, and some number, not {self.timeout_s}")
        self._check_sizes()
        if self.salt is not None and not _SALT.fullmatch(self.salt):
            raise UnusableInput("a salt is 1 to 64 letters, digits, and any of _ . -")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise UnusableInput("the API key holds characters that no header can carry")
        if self.api != AUTO_API:
            api_named(self.api)
        if self.engine is not None:
            engine_named(self.engine)
        if self.profile is not None or self.block_size is not None:
            profile_named(self.profile or DEFAULT_PROFILE, block_size=self.block_size)

    @property
    def server_url(self) -> URL:
        """URL of the API, up to and with its version; raises UnusableInput where none is given."""
        if self.url is None:
            raise UnusableInput("no server to ask: give its URL")
        return api_url(self.url)

    @property
    def is_open_loop(self) -> bool:
        """Whether sessions are let in at planned times, however many are in flight."""
        return self.rate_per_h is not None or self.recorded_starts_s is not None

    @property
    def has_no_end(self) -> bool:
        """Whether it is not said how many sessions there are, nor for how long."""
        return self.sessions is None and self.duration_s is None and self.until_ci is None

    @property
    def arrivals_named(self) -> str | None:
        """How starts are spread in an open loop; None in a closed one."""
        if self.recorded_starts_s is not None:
            return "recorded"
        return str(self.arrivals or POISSON) if self.is_open_loop else None

    def _check_sizes(self) -> None:
        """Raise UnusableInput for what is absurdly large or small."""
        sizes = {"ramp": self.ramp_s, "duration": self.duration_s, "timeout": self.timeout_s, "rate": self.rate_per_h}
        sizes |= {"gap scale": self.gaps.scale, "gap cap": self.gaps.cap_s, "half-width": self.until_ci}
        sizes |= {f"weight {share.weight}": share.weight for share in self.mix or ()}
        for name, size in sizes.items():
            if size and not LEAST <= size <= MOST:
                raise UnusableInput(f"the {name} must be at least {LEAST:.6f} and at most {MOST:,}, not {size}")

    def _check_load(self) -> None:
        if self.duration_s is not None and not 0 < self.duration_s < inf:
            raise UnusableInput(f"the duration must be more than 0 seconds, not {self.duration_s}")
        if self.arrivals is not None and (self.rate_per_h is None or self.recorded_starts_s is not None):
            raise UnusableInput("arrivals are spread at a rate: give --rate, such as 12/min")
        if self.until_ci is not None and not 0 < self.until_ci < 1:
            raise UnusableInput(f"a half-width must be more than 0 and less than 1, not {self.until_ci}")
        if self.mix and self.has_no_end:
            raise UnusableInput("a mix performs traces as often as there are sessions: say how many, or for how long")
        if self.mix and self.recorded_starts_s is not None:
            raise UnusableInput("expected a mix or recorded starts, not both: these say which trace starts when")
        if not self.is_open_loop:
            return
        if self.rate_per_h is not None and not 0 < self.rate_per_h < inf:
            raise UnusableInput(f"the rate must be more than 0 sessions an hour, not {self.rate_per_h}")
        if self.concurrency is not None:
            raise UnusableInput(
                "a rate or recorded arrivals make an open loop, in which nobody waits for a place: leave --concurrency out"
            )
        if self.ramp_s:
            raise UnusableInput(
                "a rate or recorded arrivals make an open loop, in which all starts are planned: leave --ramp out"
            )
        if self.until_ci is not None:
            raise UnusableInput(
                "jobs/h of an open loop is what arrives: leave --until-ci out, or give --concurrency in place of a rate"
            )
