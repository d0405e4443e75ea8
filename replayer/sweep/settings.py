"""What is varied from point to point: settings of the server, each with its values, and the concurrency."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

from rotoscope.replayer.servers import Settings
from rotoscope.replayer.summary import Summary
from rotoscope.traces.errors import UnusableInput

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
VALUE = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.:/@+=%-]{0,63}")
"""Of a name, number or switch; a path stays out, because results tell nothing of the machine."""
RESERVED = frozenset(
    {"port", "concurrency", "sessions", "point", "valid", "failed_gates", "on_frontier"}
    | {field.name for field in fields(Summary)}
)
"""Fields of the server command, options, and columns of the tables."""


def parse_settings(texts: Sequence[str]) -> Settings:
    """Read `NAME=V1,V2` of each setting; raise UnusableInput for anything else."""
    settings: Settings = {}
    for text in texts:
        name, is_there, values = text.partition("=")
        if not is_there or not NAME.fullmatch(name):
            raise UnusableInput(f"a setting is NAME=V1,V2 with a name of small letters, digits and _, not {text!r}")
        if name in settings:
            raise UnusableInput(f"the setting {name!r} is given twice")
        if name in RESERVED:
            raise UnusableInput(f"the setting {name!r} needs another name: results have that one already")
        settings[name] = _values(name, values)
    return settings


def parse_concurrencies(text: str) -> tuple[int, ...]:
    """Read `1,2,4`; raise UnusableInput for anything but different whole numbers from 1."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9][0-9]{0,5}", part) for part in parts):
        raise UnusableInput(f"the concurrency of a sweep is a list like 1,2,4,8, not {text!r}")
    if len({*parts}) < len(parts):
        raise UnusableInput(f"a concurrency is in {text!r} twice")
    return tuple(map(int, parts))


def _values(name: str, text: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in text.split(","))
    for value in values:
        if not VALUE.fullmatch(value):
            raise UnusableInput(
                f"the setting {name!r} has the value {value!r}: expected a name, number or switch of up to 64 letters, "
                "digits and any of _ . : / @ + = % -, which results may hold"
            )
    if len({*values}) < len(values):
        raise UnusableInput(f"the setting {name!r} has a value twice")
    return values
