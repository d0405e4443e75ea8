"""OpenAI text completions: prompts of text or of token ids, one or several, without a template.

Outputs are known as token ids where the server returns them (`token_ids`), which some do when they are asked.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.recorder.canonical import Part, id_bytes, ids_part, text_part
from rotoscope.recorder.dialects.answer import Dialect
from rotoscope.recorder.dialects.choices import ChoicesAnswer
from rotoscope.recorder.dialects.domain import cache_domain, model_of
from rotoscope.recorder.dialects.output import Output
from rotoscope.recorder.dialects.request import NotACall, Prompt, Request
from rotoscope.recorder.dialects.stream_options import usage_asked

PATH = "/completions"

MOST_OUTPUTS = 1024
"""A request with more of them is passed on unrecorded."""


def parse_request(path: str, body: bytes) -> Request:
    """Read a request body. Raises NotACall; the message holds nothing of the body."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NotACall("the body is not JSON") from None
    if not isinstance(request, dict):
        raise NotACall("the body has no prompt")
    prompts = tuple(_prompts(request.get("prompt"), request.get("suffix")))
    choices = request.get("n")
    choices = choices if isinstance(choices, int) and choices > 1 else 1
    if len(prompts) * choices > MOST_OUTPUTS:
        raise NotACall(f"it asks for more than {MOST_OUTPUTS} outputs")
    drafts = request.get("best_of")
    is_stream = bool(request.get("stream"))
    return Request(
        body=request,
        domain=cache_domain(model_of(path, request), request.get("cache_salt")),
        prompts=prompts,
        choices=choices,
        has_drafts=isinstance(drafts, int) and drafts > choices,
        is_stream=is_stream,
        is_without_usage=is_stream and not usage_asked(request),
        has_stream_options="stream_options" in request,
        is_echoed=bool(request.get("echo")),
    )


def _prompts(prompt: Any, suffix: Any) -> list[Prompt]:
    """Read one prompt or several, all text or all token ids. Raises NotACall."""
    is_list = isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list)
    prompts = [_prompt(one, suffix) for one in (prompt if is_list else [prompt])]
    if len({one.ids is None for one in prompts}) > 1:
        raise NotACall("the body has prompts of text and of token ids")
    return prompts


def _prompt(prompt: Any, suffix: Any) -> Prompt:
    """Read a prompt. One with a suffix is a gap to fill in: nobody knows what a server makes of the two."""
    if isinstance(prompt, str) and prompt:
        return Prompt(text=prompt, unseen=orjson.dumps([prompt, suffix]).decode() if suffix else "")
    if isinstance(prompt, list) and (ids := _ids(prompt)):
        return Prompt(ids=ids)
    raise NotACall("the body has no prompt of text or token ids")


def _ids(tokens: list[Any]) -> array[int] | None:
    """Return token ids, None when something else is among them."""
    try:
        return array("I", tokens)
    except (TypeError, OverflowError):
        return None


@dataclass(slots=True)
class TextOutput(Output):
    """One output as it arrives, as text and, where the server tells them, as token ids."""

    ids: array[int] = field(default_factory=lambda: array("I"), repr=False)

    def add(self, choice: dict[str, Any], at_s: float) -> None:
        """Take in a piece of the output, or all of it."""
        text, tokens = choice.get("text"), choice.get("token_ids")
        ids = _ids(tokens) if isinstance(tokens, list) else None
        if ids:
            self.ids.extend(ids)
        if text and isinstance(text, str):
            self.content.append(text)
        if text or ids:
            self.spoke(at_s)

    @property
    def token_ids(self) -> Sequence[int]:
        return self.ids

    def sent_back(self) -> Part:
        return text_part("".join(self.content).removeprefix(self.echoed))

    def sent_back_as_ids(self) -> Part:
        """Return the ids; where they are unknown, the text, which no prompt of ids goes on from."""
        return ids_part(id_bytes(self.ids)) if self.ids else self.sent_back()


class TextAnswer(ChoicesAnswer[TextOutput]):
    """An answer of text completions as it arrives."""

    __slots__ = ()

    def add(self, output: TextOutput, choice: dict[str, Any], at_s: float, *, is_whole: bool) -> None:
        output.add(choice, at_s)


DIALECT = Dialect(
    "completions",
    matches=lambda path: path.endswith(PATH),
    read=parse_request,
    answer=lambda outputs: TextAnswer([TextOutput() for _ in range(outputs)]),
)
