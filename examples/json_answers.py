"""JSON in what a model says: often with words around it, sometimes not as it was asked for."""

from __future__ import annotations

import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)


def json_in(text: str, kind: type[T]) -> T | None:
    """Return the JSON object that stands in a text, from its first brace to its last; None where it does not fit."""
    found = re.search(r"\{.*\}", text, re.DOTALL)
    try:
        return kind.model_validate_json(found[0]) if found else None
    except ValidationError:
        return None
