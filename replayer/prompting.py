"""What prompts are made of in a run: the vocabulary of token ids, or the words of a server and its chat template."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import aiohttp
import orjson

from rotoscope.replayer.backends.apis import Api
from rotoscope.replayer.calibration import Calibration, calibrate
from rotoscope.replayer.exchange import Backend, Exchange
from rotoscope.replayer.messages import Messages
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import AUTO_API, ReplayOptions
from rotoscope.replayer.rendering import TOKEN_LISTS, Rendering
from rotoscope.replayer.server import Server
from rotoscope.replayer.setup import choose_vocabulary
from rotoscope.replayer.tokenizing import Messages as Conversation
from rotoscope.replayer.tokenizing import ServerTokenizer, Tokenizer
from rotoscope.replayer.tokens import NO_TOKENS, TokenIds, Vocabulary
from rotoscope.replayer.vocabulary_file import words_in
from rotoscope.traces.errors import RunFailed, UnusableInput

_ASK_S = 30.0
_FEWEST_OUTPUT_TOKENS = {"responses": 16}
"""OpenAI refuses to give fewer in this API; one token in all others."""


def fewest_output_tokens(api: str) -> int:
    """Return the length of the shortest answer that all servers give in an API."""
    return _FEWEST_OUTPUT_TOKENS.get(api, 1)


@dataclass(frozen=True, slots=True)
class Prompting:
    """How prompts are written in a run."""

    rendering: Rendering
    vocabulary: Vocabulary
    """Ids that are drawn; of words, their numbers."""
    calibration: Calibration | None = None
    """None for prompts of token ids."""
    first: Exchange | None = None
    """The request with which words and template were tried; it brings the template's beginning into the cache."""
    first_ids: TokenIds = field(default_factory=lambda: NO_TOKENS)


async def choose_prompting(
    api: Api, options: ReplayOptions, server: Server, notes: Notes, *, http: aiohttp.ClientSession, backend: Backend
) -> Prompting:
    """Return how prompts are written; asks the server where they are made of messages."""
    if api.prompts == "ids":
        if options.tokenizer is not None and options.api != AUTO_API:
            raise UnusableInput(f"--tokenizer is for words, and {api.name} takes token ids: leave it out")
        return Prompting(TOKEN_LISTS, choose_vocabulary(options, server, notes))
    if options.vocabulary is not None:
        raise UnusableInput(f"--vocab names token ids, and {api.name} takes none: leave it out")
    tokenizer = ServerTokenizer(http, options.server_url, model=server.model, timeout_s=min(_ASK_S, options.timeout_s))

    async def count_tokens(messages: Conversation) -> int | None:
        return (await _ask(backend, orjson.dumps(messages), api)).prompt_tokens

    words = words_in(options.tokenizer) if options.tokenizer else ()
    calibration = await calibrate(tokenizer, count_tokens, words=words)
    if calibration.tokens_from == "usage":
        notes.add(
            "the server tells no tokens: how its template's fall around a message is assumed, their number is not"
        )
    return await _tried(calibration, api, backend, tokenizer=tokenizer, notes=notes)


async def _tried(
    calibration: Calibration, api: Api, backend: Backend, *, tokenizer: Tokenizer, notes: Notes
) -> Prompting:
    """Send a first prompt; what its usage counts beyond the template is taken for a part of the template's beginning."""
    messages = Messages(calibration.words, calibration.template, tokenizer)
    prompt, ids = messages.first_prompt()
    exchange = await _ask(backend, prompt, api)
    more = 0 if exchange.prompt_tokens is None else exchange.prompt_tokens - len(ids)
    head = calibration.template.head + more
    if more and head > 0:
        notes.add(
            f"the server counts {more:+} tokens in each prompt beside those that were found: they are taken for its start"
        )
        calibration = replace(calibration, template=replace(calibration.template, head=head))
        messages = Messages(calibration.words, calibration.template, tokenizer)
        ids = messages.first_prompt()[1]
    return Prompting(messages, calibration.words.vocabulary, calibration, first=exchange, first_ids=ids)


async def _ask(backend: Backend, prompt: bytes, api: Api) -> Exchange:
    """Ask for as short an answer as all servers give."""
    exchange = Exchange(prompt=prompt, output_tokens=fewest_output_tokens(api.name))
    failure = await backend.perform(exchange)
    if failure is not None:
        raise RunFailed(f"a first request of a few words failed ({failure.kind.value}): check --api, --url and --model")
    return exchange
