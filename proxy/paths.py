"""What a client may put in front of the paths of its server: `/token/TOKEN` and `/run/NAME`, in this order."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote

CONTROL = "/_rotoscope/"
"""Paths that the gateway answers itself."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is for."""

    path: str = field(repr=False)
    """Path and query for the upstream, as they were sent; or those of the gateway's own."""
    token: str = field(default="", repr=False)
    run: str = field(default="", repr=False)
    """Name of a run, empty where none is given."""


def split(target: str, *, base_path: str, takes_token: bool) -> Target:
    """Read a target, which begins with a slash; one that begins with the upstream's own path stays whole."""
    token = run = ""
    if takes_token:
        token, target = _taken(target, "/token/")
    if not (base_path and target.startswith(base_path + "/")):
        run, target = _taken(target, "/run/")
    return Target(target, token, run)


def _taken(target: str, prefix: str) -> tuple[str, str]:
    """Return the segment behind a prefix, and the target without both."""
    if not target.startswith(prefix):
        return "", target
    value, slash, rest = target.removeprefix(prefix).partition("/")
    if not value or not slash:
        return "", target
    return unquote(value), slash + rest
