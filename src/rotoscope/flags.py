"""Options that several commands share as a dataclass: each field one option, declared once with its default and help."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, get_type_hints


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of each parameter that is a dataclass as options, in the place of that one."""
    hints = get_type_hints(command, include_extras=True)
    kinds = {name: hints.pop(name) for name in list(hints) if is_dataclass(hints[name])}
    fields = {name: get_type_hints(kind, include_extras=True) for name, kind in kinds.items()}

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        made = {name: kind(**{field: given.pop(field) for field in fields[name]}) for name, kind in kinds.items()}
        command(**made, **given)

    for inner in fields.values():
        hints |= inner
    flat.__annotations__ = hints
    flat.__signature__ = _flat_signature(command, kinds, hints)  # type: ignore[attr-defined]
    return flat


def _flat_signature(command: Callable[..., None], kinds: dict[str, Any], hints: dict[str, Any]) -> inspect.Signature:
    parameters = []
    for own in inspect.signature(command).parameters.values():
        inner = inspect.signature(kinds[own.name]).parameters.values() if own.name in kinds else [own]
        parameters += [one.replace(kind=one.KEYWORD_ONLY, annotation=hints[one.name]) for one in inner]
    return inspect.Signature(parameters)
