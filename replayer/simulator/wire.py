"""What clients send: the bodies the simulator understands, and the refusal of everything else in OpenAI's form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rotoscope.replayer.simulator.images import image_mark
from rotoscope.replayer.simulator.model import Message, ToolCall
from rotoscope.replayer.simulator.tokenizer import TokenIds, encode, vocabulary_size

_DEFAULT_COMPLETION_TOKENS = 16
_MOST_CHOICES = 128


class Refusal(Exception):
    """An answer other than 200, in the form that OpenAI clients know."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {
                "message": message,
                "type": "server_error" if status >= 500 else "invalid_request_error",
                "param": param,
                "code": code,
            }
        }


class Body(BaseModel):
    """A body or a part of one; fields that are not known are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", arbitrary_types_allowed=True)


class StreamOptions(Body):
    """What to add to a response stream."""

    include_usage: bool = False


class GenerationBody(Body):
    """The fields that both kinds of completion have; sampling parameters are accepted and have no meaning here."""

    model: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    min_tokens: int | None = Field(None, ge=0)
    ignore_eos: bool | None = False
    n: int | None = Field(1, ge=1, le=_MOST_CHOICES)
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = False
    seed: int | None = None
    cache_salt: str | None = None

    @property
    def output_tokens(self) -> int | None:
        """Return the most tokens to generate; None leaves it to the room there is."""
        return self.max_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        """Return the stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        """Return whether a response stream ends with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(GenerationBody):
    """The body of /v1/completions."""

    prompt: Any

    @property
    def output_tokens(self) -> int | None:
        """Return the most tokens to generate, 16 if nothing is said."""
        return self.max_tokens or _DEFAULT_COMPLETION_TOKENS

    def prompts(self) -> list[TokenIds]:
        """Return the token ids of each prompt."""
        return _prompts(self.prompt)


class TextPart(Body):
    """A piece of text in the content of a message."""

    type: Literal["text", "input_text", "output_text"]
    text: str


class ImagePart(Body):
    """An image in the content of a message, by its address, its bytes or its file; nothing is fetched or decoded."""

    type: Literal["image_url", "input_image", "image"]
    image_url: str | dict[str, Any] | None = None
    file_id: str | None = None
    source: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _has_an_image(self) -> ImagePart:
        if not self._image:
            raise ValueError("no image in it")
        try:
            _dumped(self._image)
        except orjson.JSONEncodeError:
            raise ValueError("it is nested too deeply") from None
        return self

    @property
    def _image(self) -> object:
        url = self.image_url.get("url") if isinstance(self.image_url, dict) else self.image_url
        return url or self.source or self.file_id

    @property
    def text(self) -> str:
        """Return what stands for the image in the text of a message."""
        return image_mark(_dumped(self._image))


def _dumped(image: object) -> bytes:
    return orjson.dumps(image, option=orjson.OPT_SORT_KEYS)


ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class _Function(Body):
    name: str
    arguments: str | dict[str, Any] = ""


class _ToolCallBody(Body):
    id: str = ""
    function: _Function


class _MessageBody(Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[_ToolCallBody] | None = None
    tool_call_id: str | None = None

    def message(self) -> Message:
        calls = tuple(map(_tool_call, self.tool_calls or ()))
        return Message(self.role, joined(self.content), calls, self.tool_call_id or "")


class ChatBody(GenerationBody):
    """The body of /v1/chat/completions."""

    messages: list[_MessageBody] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    max_completion_tokens: int | None = Field(None, ge=1)

    @property
    def output_tokens(self) -> int | None:
        """Return the most tokens to generate, under its new name or its old one."""
        return self.max_completion_tokens or self.max_tokens


class TemplateBody(Body):
    """The body of /apply-template, and of /tokenize for a conversation."""

    messages: list[_MessageBody] = Field(min_length=1)
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = True


class TokenizeBody(Body):
    """The body of /tokenize for a text, under vLLM's name for it or llama-server's."""

    prompt: str | None = None
    content: str | None = None

    def text(self) -> str:
        """Return the text to tokenize."""
        text = self.prompt if self.prompt is not None else self.content
        if text is None:
            raise Refusal("prompt: neither a prompt nor messages to tokenize", param="prompt")
        return text


class DetokenizeBody(Body):
    """The body of /detokenize."""

    tokens: list[int]


BodyType = TypeVar("BodyType", bound=Body)


def parse_json(data: bytes) -> dict[str, Any]:
    """Return the JSON object that a body holds."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Refusal(f"the body is not valid JSON: {error.msg} at character {error.pos}") from None
    if not isinstance(body, dict):
        raise Refusal("the body is not a JSON object")
    return body


def parse(kind: type[BodyType], body: dict[str, Any]) -> BodyType:
    """Return a body of the kind asked for; the refusal names the field that does not fit, where it is told most closely."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        closest = max(errors, key=lambda x: len(x["loc"]))  # of what could be this or that, what it is most like
        field = ".".join(str(step) for step in closest["loc"] if "[" not in str(step))
        raise Refusal(f"{field}: {closest['msg']}", param=field) from None


def joined(content: str | Sequence[TextPart | ImagePart] | None) -> str:
    """Return the text of a content, which may come in parts."""
    return content if isinstance(content, str) else "".join(part.text for part in content or ())


def messages_of(body: ChatBody | TemplateBody) -> tuple[Message, ...]:
    """Return the conversation of a body."""
    return tuple(message.message() for message in body.messages)


def token_ids(tokens: object) -> TokenIds:
    """Return an array of valid token ids."""
    try:
        ids = np.asarray(tokens)
    except ValueError:
        raise _bad_prompt() from None
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise _bad_prompt()
    size = vocabulary_size()
    if ids.min() < 0 or ids.max() >= size:
        raise Refusal(f"prompt: a token id is not in 0..{size - 1}", param="prompt")
    return ids.astype(np.uint32)


def _prompts(prompt: object) -> list[TokenIds]:
    match prompt:
        case str():
            prompts = [encode(prompt)]
        case [str(), *_]:
            prompts = [encode(text) for text in _texts(prompt)]
        case [list(), *_]:
            prompts = [token_ids(tokens) if tokens else np.empty(0, np.uint32) for tokens in prompt]
        case [_, *_]:
            prompts = [token_ids(prompt)]
        case _:
            raise _bad_prompt()
    if not all(map(len, prompts)):
        raise Refusal("prompt: a prompt without tokens cannot be completed", param="prompt")
    return prompts


def _texts(prompt: Iterable[object]) -> list[str]:
    texts = [text for text in prompt if isinstance(text, str)]
    if len(texts) != len(list(prompt)):
        raise _bad_prompt()
    return texts


def _bad_prompt() -> Refusal:
    return Refusal("prompt: neither a text, nor token ids, nor a list of either", param="prompt")


def _tool_call(body: _ToolCallBody) -> ToolCall:
    arguments = body.function.arguments
    if not isinstance(arguments, str):  # some clients send history with parsed arguments
        arguments = orjson.dumps(arguments).decode()
    return ToolCall(body.function.name, arguments, body.id)
