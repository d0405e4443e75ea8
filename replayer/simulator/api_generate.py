"""SGLang's own `/generate` on the simulator: token ids in, all ids so far in each event, as SGLang does by default."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rotoscope.replayer.simulator.responses import DONE, Choice, Form, Reply, event
from rotoscope.replayer.simulator.tokenizer import TokenIds, encode
from rotoscope.replayer.simulator.wire import Body, GenerationBody, Refusal, token_ids

_DEFAULT_NEW_TOKENS = 128


class _Sampling(Body):
    max_new_tokens: int | None = Field(default=_DEFAULT_NEW_TOKENS, ge=1)
    min_new_tokens: int | None = Field(default=0, ge=0)
    ignore_eos: bool | None = False
    stop: str | list[str] | None = None


class GenerateBody(Body):
    """The body of /generate, for one prompt."""

    text: str | None = None
    input_ids: list[Any] | None = None
    sampling_params: _Sampling = _Sampling()
    stream: bool | None = False

    def prompt(self) -> TokenIds:
        """Return the token ids of the prompt."""
        if self.input_ids:
            return token_ids(self.input_ids)
        if self.text:
            return encode(self.text)
        raise Refusal("neither text nor input_ids to complete", param="input_ids")

    def generation(self) -> GenerationBody:
        """Return the limits under the names that other requests have for them."""
        sampling = self.sampling_params
        return GenerationBody(
            max_tokens=sampling.max_new_tokens or _DEFAULT_NEW_TOKENS,
            min_tokens=sampling.min_new_tokens,
            ignore_eos=sampling.ignore_eos,
            n=1,
            stop=sampling.stop,
            stream=self.stream,
        )


def _whole(reply: Reply) -> dict[str, Any]:
    return _so_far(reply, reply.choices[0], len(reply.choices[0].output.pieces))


def _chunks(reply: Reply, choice: Choice, first: int, end: int) -> list[bytes]:
    return [event(_so_far(reply, choice, end))]


def _so_far(reply: Reply, choice: Choice, end: int) -> dict[str, Any]:
    pieces = choice.output.pieces[:end]
    return {
        "text": "".join(piece.text for piece in pieces),
        "output_ids": [piece.token for piece in pieces],
        "meta_info": {
            "id": reply.id,
            "finish_reason": _finish_reason(choice) if end == len(choice.output.pieces) else None,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": end,
            "cached_tokens": choice.generation.cached_tokens,
        },
    }


def _finish_reason(choice: Choice) -> dict[str, Any]:
    if choice.output.ending == "length":
        return {"type": "length", "length": len(choice.output.pieces)}
    return {"type": "stop", "matched": choice.output.pieces[-1].token}


def _ending(reply: Reply, *, include_usage: bool) -> bytes:
    return DONE


GENERATE_FORM = Form(_whole, _chunks, _ending)
