"""Read the plan of a sweep back from its folder."""

from __future__ import annotations

from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from rotoscope.replayer.sweep.plan import SweepPlan
from rotoscope.replayer.sweep.run import FORMAT_NAME, FORMAT_VERSION, PLAN_FILE
from rotoscope.traces.errors import UnusableInput


def is_sweep(folder: Path) -> bool:
    """Return whether a folder is one of a sweep."""
    return (folder / PLAN_FILE).exists()


def read_plan(folder: Path) -> SweepPlan:
    """Return the plan of a sweep; raise UnusableInput where it is damaged or newer than this."""
    path = folder / PLAN_FILE
    try:
        raw = orjson.loads(path.read_bytes())
        if raw.pop("format") != {"name": FORMAT_NAME, "version": FORMAT_VERSION}:
            raise UnusableInput(f"{path}: expected the name {FORMAT_NAME!r} and version {FORMAT_VERSION}")
        return TypeAdapter(SweepPlan).validate_json(orjson.dumps(raw), strict=True)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValidationError):
        raise UnusableInput(f"{path} is no plan of a sweep: damaged or changed") from None
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error
