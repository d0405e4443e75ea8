"""The scripted server for coding agents with a real tokenizer, and with the pace of a large model.

The simulator has a tokenizer of its own, which makes 1.6 to 1.8 times as many tokens of prompts like these as those of
models do. Here what an agent sends and is told is counted with o200k_base, and each mark of the simulator's chat template
is one token besides: `usage` is what a server with that tokenizer and that template would tell.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
from aiohttp import web
from clients.scripted_server import MODEL, Script
from coding_agents.agent_server import AgentServer, plain_messages
from tiktoken import Encoding

from rotoscope.replayer.simulator import wire
from rotoscope.replayer.simulator.api_messages import MessagesBody
from rotoscope.replayer.simulator.blocks import blocks_of
from rotoscope.replayer.simulator.model import Message, ModelRequest, ScriptedModel
from rotoscope.replayer.simulator.output import Output, Piece
from rotoscope.replayer.simulator.responses import Choice
from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.replayer.simulator.serving import Desk
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.timing import Timing, clock_of_speed
from rotoscope.replayer.simulator.tokenizer import CONTROLS, THINK, THINK_END, TokenIds, control_id
from rotoscope.traces.offline_encodings import load_encoding

TOKENIZER = "o200k_base"
PACE = Timing(
    prefill_tokens_per_s=20_000.0,
    decode_step_s=((1, 0.010), (16, 0.020)),
    request_overhead_s=0.1,
    source="made up: what people are used to from a large model in a data centre",
)


class CountingServer(AgentServer):
    """A scripted server that counts with a real tokenizer."""

    timing = PACE

    def __init__(self, script: Script, *, speed: float = 1.0) -> None:
        _encoding()  # now, because loading it takes a second
        super().__init__(script, says_in_errors="busy")
        (replica,) = self.fleet.replicas
        replica.engine = self.engine_type(replica.engine.scheduler, clock_of_speed(speed))
        self._desk = CountingDesk(self.fleet, ScriptedModel(script), name=MODEL, context_tokens=self.context_tokens)

    def _chat_prompt(
        self, body: wire.GenerationBody, messages: tuple[Message, ...], tools: tuple[dict[str, Any], ...]
    ) -> ModelRequest:
        return ModelRequest(ids_of(render(messages, tools)), messages, tools, seed=self._seed(body))

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        data = wire.parse_json(await request.read())
        if "messages" in data:
            body = wire.parse(wire.TemplateBody, data)
            text = render(wire.messages_of(body), body.tools or ())
        else:
            text = wire.parse(wire.TokenizeBody, data).text()
        ids = ids_of(text)
        return web.json_response({"count": len(ids), "max_model_len": self.context_tokens, "tokens": ids.tolist()})

    async def _count_tokens(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(MessagesBody, plain_messages(wire.parse_json(await request.read()) | {"max_tokens": 1}))
        return web.json_response({"input_tokens": len(ids_of(render(body.conversation(), body.chat_tools())))})


class CountingDesk(Desk):
    """A desk whose answers have a real tokenizer's tokens."""

    def _choice(self, body: wire.GenerationBody, request: ModelRequest, index: int) -> Choice:
        planned = super()._choice(body, request, index)
        output = recounted(planned.output)
        generation = Generation(request.prompt_ids, output.ids, output.ending, salt=body.cache_salt or "")
        return Choice(index, output, generation, planned.tool_ids, blocks_of(output))


def ids_of(text: str) -> TokenIds:
    """Return the tokens of a text in which the marks of the template are spelled out."""
    return np.array(_encoding().encode(text, allowed_special=set(CONTROLS), disallowed_special=()), np.uint32)


def recounted(output: Output) -> Output:
    """Return an output with the same text, each run of it in a real tokenizer's tokens."""
    pieces = [piece for _, run in groupby(output.pieces, _run) for piece in _recounted(list(run))]
    ids = [piece.token for piece in pieces]
    has_thinking = bool(ids) and ids[0] == _mark(THINK)
    end = ids.index(_mark(THINK_END)) + 1 if has_thinking and _mark(THINK_END) in ids else len(ids)
    return Output(tuple(pieces), output.finish_reason, end if has_thinking else 0)


def _run(piece: Piece) -> tuple[str, int]:
    return piece.channel, piece.tool


def _recounted(run: list[Piece]) -> Iterator[Piece]:
    if run[0].channel in ("control", "tool_start"):
        yield from (replace(piece, token=_mark(_control_named()[piece.token])) for piece in run)
        return
    ids = _encoding().encode("".join(piece.text for piece in run), disallowed_special=())
    for token, text in zip(ids, _texts(ids), strict=True):
        yield replace(run[0], token=token, text=text)


def _texts(ids: Iterable[int]) -> Iterator[str]:
    """Yield the text that each token adds; a character cut into bytes appears with its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return (decoder.decode(_encoding().decode_single_token_bytes(token)) for token in ids)


def _mark(text: str) -> int:
    return _encoding().encode_single_token(text)


@cache
def _control_named() -> dict[int, str]:
    return {control_id(text): text for text in CONTROLS}


@cache
def _encoding() -> Encoding:
    """Return the encoding with a token for each mark, as tiktoken's own documentation extends one."""
    plain = load_encoding(TOKENIZER)
    marks = {text: plain.n_vocab + number for number, text in enumerate(CONTROLS)}
    return Encoding(
        f"{TOKENIZER} with the marks of the template",
        pat_str=plain._pat_str,
        mergeable_ranks=plain._mergeable_ranks,
        special_tokens={**plain._special_tokens, **marks},
    )
