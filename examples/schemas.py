"""Tool schemas from the tools themselves: the docstring describes the tool, `Annotated` its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import get_args

from openai.types.chat import ChatCompletionToolParam

JSON_TYPES: dict[object, dict[str, object]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    list[str]: {"type": "array", "items": {"type": "string"}},
}


def schema(tool: Callable[..., object]) -> ChatCompletionToolParam:
    """Return what the model is told of a tool: its name, its docstring, and its parameters with their descriptions."""
    properties = {}
    required = []
    for parameter in inspect.signature(tool, eval_str=True).parameters.values():
        kind, description = get_args(parameter.annotation)
        properties[parameter.name] = JSON_TYPES[kind] | {"description": description}
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {
        "type": "function",
        "function": {
            "name": tool.__name__,
            "description": inspect.getdoc(tool) or "",
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }
