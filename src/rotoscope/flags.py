"""Options that several commands share as a dataclass: each field one option, declared once with its default and help."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

PARAMETER = "flags"
"""Of a command, which takes a dataclass."""


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its parameter `flags` as options of its own, in the place of that one."""
    hints = get_type_hints(command, include_extras=True)
    kind = hints.pop(PARAMETER)
    hints |= (fields := get_type_hints(kind, include_extras=True))

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        command(**{PARAMETER: kind(**{name: given.pop(name) for name in fields})}, **given)

    flat.__annotations__ = hints
    flat.__signature__ = _flat_signature(command, kind, hints)  # type: ignore[attr-defined]
    return flat


def _flat_signature(command: Callable[..., None], kind: type, hints: dict[str, Any]) -> inspect.Signature:
    parameters = []
    for own in inspect.signature(command).parameters.values():
        of_flags = inspect.signature(kind).parameters.values() if own.name == PARAMETER else [own]
        parameters += [one.replace(kind=one.KEYWORD_ONLY, annotation=hints[one.name]) for one in of_flags]
    return inspect.Signature(parameters)
