"""The tools of an agent, called as a model asks for them; what goes wrong is told to the model, not raised."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence

from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import ConfigDict, ValidationError, validate_call
from pydantic_core import from_json

from .chat import ToolCall
from .schemas import schema

Tool = Callable[..., str] | Callable[..., Awaitable[str]]


class Toolbox:
    """Tools by name. A tool that cannot do what it is asked raises ValueError or OSError."""

    def __init__(self, *tools: Tool) -> None:
        strict = validate_call(config=ConfigDict(strict=True))
        self._tools = {tool.__name__: strict(tool) for tool in tools}
        self.schemas: Sequence[ChatCompletionToolParam] = tuple(map(schema, tools))

    async def call(self, call: ToolCall) -> ChatCompletionMessageParam:
        """Run a tool with arguments as the model wrote them; return what the model is told."""
        return {"role": "tool", "tool_call_id": call.id, "content": await self._result(call.name, call.arguments)}

    async def _result(self, name: str, arguments: str) -> str:
        if name not in self._tools:
            return f"error: there is no tool {name!r}, only {', '.join(self._tools)}"
        try:
            given = from_json(arguments or "{}")
            output = self._tools[name](**given)
            return await output if inspect.isawaitable(output) else output
        except ValidationError as error:
            return "error: " + "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        except (OSError, TypeError, ValueError) as error:
            return f"error: {error}"
