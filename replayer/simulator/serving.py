"""The life of one completion request: plan its outputs, let the engine generate them, send them whole or in pieces."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import orjson
from aiohttp import web

from rotoscope.replayer.simulator.blocks import blocks_of
from rotoscope.replayer.simulator.fleet import Fleet, Replica
from rotoscope.replayer.simulator.model import Model, ModelRequest
from rotoscope.replayer.simulator.output import Limits, plan_output
from rotoscope.replayer.simulator.responses import Choice, Form, Reply, event
from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.replayer.simulator.wire import CompletionBody, GenerationBody, Refusal
from rotoscope.traces.errors import RunFailed

_log = logging.getLogger(__name__)


class Desk:
    """Takes requests in and hands answers out."""

    def __init__(self, fleet: Fleet, model: Model, *, name: str, context_tokens: int) -> None:
        self._fleet = fleet
        self._model = model
        self._name = name
        self._context_tokens = context_tokens

    def check_model(self, name: str | None) -> None:
        """Refuse a model that is not served; leaving it out is fine, as with vLLM."""
        if name is not None and name != self._name:
            raise Refusal(f"the model {name!r} does not exist", status=404, code="model_not_found", param="model")

    async def serve(
        self, request: web.Request, body: GenerationBody, prompts: Sequence[ModelRequest], form: Form
    ) -> web.StreamResponse:
        """Answer one request."""
        self.check_model(body.model)
        reply = self._plan(body, prompts)
        if body.stream:
            return await self._stream(request, reply, form, include_usage=body.include_usage)
        replica = self._fleet.replica_for(reply.generations)
        async with aclosing(replica.engine.generate(reply.generations)) as progress:
            async for _ in progress:
                pass
        self._observe(replica, reply)
        return web.Response(body=orjson.dumps(form.whole(reply)), content_type="application/json")

    async def _stream(
        self, request: web.Request, reply: Reply, form: Form, *, include_usage: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        await response.prepare(request)
        replica = self._fleet.replica_for(reply.generations)  # now, so that nobody is routed before this is submitted
        try:
            async with aclosing(replica.engine.generate(reply.generations)) as progress:
                async for rank, first, end in progress:
                    await response.write(b"".join(form.chunks(reply, reply.choices[rank], first, end)))
        except RunFailed as error:  # the status has been sent
            await response.write(event(Refusal(str(error), status=500).body))
            return response
        self._observe(replica, reply)
        await response.write(form.ending(reply, include_usage=include_usage))
        await response.write_eof()
        return response

    def _observe(self, replica: Replica, reply: Reply) -> None:
        for generation in reply.generations:
            replica.latencies.observe(generation)

    def _plan(self, body: GenerationBody, prompts: Sequence[ModelRequest]) -> Reply:
        count = body.n or 1
        choices = [
            self._choice(body, replace(prompt, choice=rank), number * count + rank)
            for number, prompt in enumerate(prompts)
            for rank in range(count)
        ]
        return Reply(
            model=self._name,
            choices=tuple(choices),
            choices_per_prompt=count,
            prompt_tokens=sum(len(prompt.prompt_ids) for prompt in prompts),
            with_ids=bool(body.return_token_ids),
            prompt_ids=None if isinstance(body, CompletionBody) else prompts[0].prompt_ids,
        )

    def _choice(self, body: GenerationBody, request: ModelRequest, index: int) -> Choice:
        limits = self._limits(body, len(request.prompt_ids))
        output = plan_output(self._model.answer(request), request, limits)
        generation = Generation(request.prompt_ids, output.ids, output.ending, salt=body.cache_salt or "")
        tool_ids = tuple(f"call_{uuid.uuid4().hex[:24]}" for _ in range(output.tools))
        return Choice(index, output, generation, tool_ids, blocks_of(output))

    def _limits(self, body: GenerationBody, prompt_tokens: int) -> Limits:
        asked = body.output_tokens
        check_room(prompt_tokens, asked or 1, context_tokens=self._context_tokens)
        max_tokens = asked or self._context_tokens - prompt_tokens
        if (body.min_tokens or 0) > max_tokens:
            raise Refusal(f"min_tokens {body.min_tokens} is more than max_tokens {max_tokens}", param="min_tokens")
        return Limits(max_tokens, body.min_tokens or 0, bool(body.ignore_eos), body.stops)


def check_room(prompt_tokens: int, output_tokens: int, *, context_tokens: int) -> None:
    """Refuse a call that is longer than the context."""
    if prompt_tokens + output_tokens > context_tokens:
        raise Refusal(
            f"this model's maximum context length is {context_tokens} tokens, but {prompt_tokens} in the "
            f"prompt and {output_tokens} in the completion were requested",
            code="context_length_exceeded",
        )
