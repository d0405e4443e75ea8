"""The command that replays traces on a server, from what was found out about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from yarl import URL

from rotoscope.replayer.doctor.checks import Known
from rotoscope.replayer.server import DEFAULT_VOCABULARY
from rotoscope.traces.analysis.profiles import PROFILES, EngineProfile

PLACEHOLDER = "TRACES"
"""Stands for the files to replay."""


def replay_command(
    known: Known, url: URL, *, model: str | None = None, engine: str | None = None, api_key_env: str | None = None
) -> str:
    """Return a line to be pasted; what the server tells the replay by itself is left out of it.

    `model`, `engine` and `api_key_env` are what was given on the command line.
    """
    words = ["rotoscope", "replay", PLACEHOLDER, "--url", str(url.with_user(None))]
    if model:
        words += ["--model", model]
    if engine or known.engine not in (None, known.server.engine.name):
        words += ["--engine", engine or str(known.engine)]
    if not known.takes_ids:
        words += _api(known)
    words += _profile(known)
    if known.server.vocabulary is None and known.takes_ids:
        words += ["--vocab", str(DEFAULT_VOCABULARY)]
    if api_key_env:
        words += ["--api-key-env", api_key_env]
    return shlex.join(words)


def _api(known: Known) -> list[str]:
    return next((["--api", name] for name in ("chat", "responses", "messages") if name in known.apis), [])


def _profile(known: Known) -> list[str]:
    """Return the profile whose rule of reuse was measured, the engine's own if it is that one."""
    if known.server.profile in PROFILES:
        return []  # a simulator tells it
    if known.block_size is None:
        return []
    profile = _matching(known)
    size = [] if profile.block_size == known.block_size else ["--block-size", str(known.block_size)]
    return ["--profile", profile.name, *size]


def _matching(known: Known) -> EngineProfile:
    keeps = known.decode_reuse is not False
    own = [profile for name in (known.server.engine.name, known.engine, known.family) for profile in _profiles_of(name)]
    fitting = [
        profile for profile in (*own, PROFILES["token"], PROFILES["prompt-only"]) if profile.decode_reuse == keeps
    ]
    return next((profile for profile in fitting if profile.block_size == known.block_size), fitting[0])


def _profiles_of(engine: str | None) -> Iterator[EngineProfile]:
    """Yield the profiles of an engine: of its usual configuration first, then of others."""
    if engine is not None:
        if engine in PROFILES:
            yield PROFILES[engine]
        yield from (profile for name, profile in PROFILES.items() if name.startswith(f"{engine}-"))
