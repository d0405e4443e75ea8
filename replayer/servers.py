"""Where a replay finds its server: at a URL, or started for it and stopped after it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeAlias

from rotoscope.replayer.notes import Say
from rotoscope.replayer.server_command import PORT, ServerCommand
from rotoscope.replayer.server_process import Patience, free_port, running_server
from rotoscope.traces.errors import UnusableInput

Settings: TypeAlias = dict[str, tuple[str, ...]]
"""The values of each setting of servers, by its name, in the order given."""

GPUS = "gpus"
"""A setting of this name is also how many GPUs a server has."""
_LOOPBACK = "http://127.0.0.1:{port}"
_PORT_FIELD = f"{{{PORT}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """A URL that may have the field of a port, and the command that starts what is there; None where it is there already."""

    url: str
    command: ServerCommand | None
    patience: Patience

    @classmethod
    def parse(cls, *, url: str | None, command: str | None, settings: Settings, patience: Patience) -> Self:
        """Read what was given; raise UnusableInput where it leads to no server, or settings have no place in it."""
        parsed = None if command is None else ServerCommand.parse(command, settings=settings)
        _check_settings(settings, parsed)
        takes_port = parsed is not None and PORT in parsed.fields
        if url is None and not takes_port:
            raise UnusableInput(
                "expected the --url of a server, or a --server-command with {port}"
                if parsed is None
                else "the server command has no {port}: add it, or say with --url where the server listens"
            )
        url = url or _LOOPBACK
        if (_PORT_FIELD in url) != takes_port:
            raise UnusableInput(
                "{port} must be in both the server command and the URL, or in neither: leave --url away"
            )
        return cls(url=url, command=parsed, patience=patience)

    @property
    def any_url(self) -> str:
        """The URL with some port, for what is checked before there is a server."""
        return self.url.replace(_PORT_FIELD, "1")

    @contextmanager
    def running(self, settings: Mapping[str, str], *, api_key: str | None, say: Say) -> Iterator[str]:
        """Yield the URL of a server with these settings, which is stopped with the block if it was started for it."""
        if self.command is None:
            yield self.url
            return
        values = {**settings, PORT: str(free_port())}
        url = self.url.replace(_PORT_FIELD, values[PORT])
        with running_server(self.command.filled(values), url, patience=self.patience, api_key=api_key, say=say):
            yield url


def _check_settings(settings: Settings, command: ServerCommand | None) -> None:
    """Raise UnusableInput where a setting has no effect, or the number of GPUs is none."""
    if settings and command is None:
        raise UnusableInput("settings are of servers that are started: give --server-command, or --simulate")
    for name in settings:
        if name != GPUS and command is not None and name not in command.fields:
            raise UnusableInput(f"the setting {name!r} has no place in the server command: put {{{name}}} there")
    check_gpus(settings)


def check_gpus(settings: Settings) -> None:
    """Raise UnusableInput where a number of GPUs is none."""
    for value in settings.get(GPUS, ()):
        if not re.fullmatch(r"[1-9][0-9]{0,5}", value):
            raise UnusableInput(f"the setting {GPUS!r} is a number of GPUs, not {value!r}")
