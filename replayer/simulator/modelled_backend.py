"""The backend that asks simulated engines in the same process: no socket, no JSON, and all times modelled."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import orjson

from rotoscope.replayer.backends.http import Tell
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind, failure_of_status
from rotoscope.replayer.simulator.fleet import Fleet
from rotoscope.replayer.simulator.model import ModelRequest, random_ids
from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.replayer.simulator.serving import check_room
from rotoscope.replayer.simulator.wire import Refusal
from rotoscope.replayer.text import unpacked


class ModelledBackend:
    """Perform calls on a fleet that runs in the same modelled loop; exchanges hold packed prompts."""

    def __init__(self, fleet: Fleet, *, context_tokens: int, seed: int, timeout_s: float, tell: Tell) -> None:
        """`seed` is that of the random answers; `timeout_s` is how long a first token may take."""
        self._fleet = fleet
        self._context_tokens = context_tokens
        self._seed = seed
        self._timeout_s = timeout_s
        self._tell = tell
        self._now = asyncio.get_running_loop().time

    async def perform(self, exchange: Exchange) -> Failure | None:
        """Let one request be computed, with its answer in `exchange`; return why it failed, if it did."""
        exchange.sent_s = self._now()
        try:
            await self._generate(exchange, self._generation(exchange))
        except Refusal as refusal:
            failure, message = failure_of_status(refusal.status, orjson.dumps(refusal.body))
            self._tell(failure.kind, message)
            return failure
        except TimeoutError:
            return Failure(FailureKind.SILENT_STREAM, 200)
        finally:
            exchange.ended_s = self._now()
        return None

    def _generation(self, exchange: Exchange) -> Generation:
        prompt_ids = unpacked(exchange.prompt)
        if not len(prompt_ids):
            raise Refusal("the prompt is empty", param="prompt")
        check_room(len(prompt_ids), exchange.output_tokens, context_tokens=self._context_tokens)
        answer = random_ids(ModelRequest(prompt_ids, seed=self._seed), exchange.output_tokens)
        return Generation(prompt_ids, answer, "length", awaited=exchange.awaited_tokens)

    async def _generate(self, exchange: Exchange, generation: Generation) -> None:
        exchange.answered_s = exchange.sent_s
        replica = self._fleet.replica_for([generation])
        try:
            async with (
                asyncio.timeout(self._timeout_s) as silence,
                aclosing(replica.engine.generate([generation])) as progress,
            ):
                async for _ in progress:
                    silence.reschedule(None)
                    _note_tokens(exchange, generation)
        finally:
            _note_tokens(exchange, generation)
        exchange.prompt_tokens = len(generation.prompt_ids)
        exchange.completion_tokens = generation.generated
        exchange.cached_tokens = generation.cached_tokens
        replica.latencies.observe(generation)


def _note_tokens(exchange: Exchange, generation: Generation) -> None:
    """Let the exchange have all tokens that there are, as if each had come in an event of its own."""
    times_s, noted = generation.token_times_s, len(exchange.output_ids)
    for end in (1, len(times_s)):
        if noted < end <= len(times_s):
            exchange.output_ids += generation.output_ids[noted:end].tolist()
            exchange.note_tokens(end - noted, times_s[end - 1])
            exchange.token_events = noted = end
