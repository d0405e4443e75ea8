"""The prompts of a replay: random token ids whose common prefixes are those of the traces (R9).

A prompt begins with the tokens of the stream that its prefix names, goes on with a code that keeps it apart from all
others that leave that stream at the same place, and then with tokens drawn for this call of this session. Where a
prefix reaches into an output, the ids are what the server returned, as far as it did; the rest is drawn.

Nothing here depends on the order in which sessions and calls are asked for; only what a server returned, and when,
enters. Tokens are arrays and text, never Python ints; a prompt that extends an earlier one reuses its text.

What can be made again need not be kept: of a session that waits while many others do, only what its server returned is.

How prompts are written, and what of their tokens is not drawn, is a matter of the rendering: lists of ids, or messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.layout import Layout
from rotoscope.replayer.partings import Origin, Parting, Partings, SharedKey
from rotoscope.replayer.rendering import TOKEN_LISTS, LaidOut, Rendering
from rotoscope.replayer.separation import Separation
from rotoscope.replayer.token_streams import CallName, SentTokens, SharedName, StreamName, TokenStream
from rotoscope.replayer.tokens import NO_TOKENS, Identity, TokenIds, Vocabulary
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import Call, Trace

MOST_KEPT_TOKENS = 5_000_000
"""Of all sessions together, beyond which those that wait keep none: at about 11 bytes each, as ids and as text."""
_BY_NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Outline:
    """What all sessions of a trace have in common."""

    laid_out: LaidOut
    calls: Mapping[int, Call]
    taken_up: Mapping[int, set[int]]
    """How many tokens of an answer later prompts hold; 0 where one goes on at its beginning."""

    @classmethod
    def of(cls, laid_out: LaidOut, partings: Mapping[int, Parting]) -> _Outline:
        calls = {call.call: call for call in laid_out.trace.calls()}
        taken_up: dict[int, set[int]] = {}
        for call, parting in partings.items():
            if parting.tokens == calls[call].prompt_tokens:
                taken_up.setdefault(call, set()).add(0)
            if isinstance(parting.of, int) and (taken := parting.tokens - calls[parting.of].prompt_tokens) >= 0:
                taken_up.setdefault(parting.of, set()).add(taken)
        return cls(laid_out, calls, taken_up)


@dataclass(frozen=True, slots=True)
class SharedPrompt:
    """A prompt that is a shared prefix."""

    name: SharedName
    text: bytes
    """As it is sent."""
    tokens: int
    """Of the prefix."""
    tail: TokenIds
    """The tokens that the server adds to it."""


class PromptPlan:
    """The prompts of all sessions of a run; session i performs trace i modulo their number."""

    def __init__(
        self,
        traces: Sequence[Trace],
        *,
        seed: int,
        salt: str,
        sessions: int,
        vocabulary: Vocabulary,
        rendering: Rendering = TOKEN_LISTS,
        most_kept_tokens: int = MOST_KEPT_TOKENS,
    ) -> None:
        if not traces:
            raise UnusableInput("expected at least one trace to replay, found none")
        self._rendering = rendering
        self._plans = [rendering.lay_out(trace) for trace in traces]
        traces = [plan.trace for plan in self._plans]
        self._sessions = sessions
        self._run: tuple[Identity, ...] = (seed, salt)
        self._vocabulary = vocabulary
        self._partings = Partings(traces, sessions)
        self._outlines = [
            _Outline.of(plan, dict(self._partings.of_session(number))) for number, plan in enumerate(self._plans)
        ]
        self._most_kept_tokens = most_kept_tokens
        self.kept_tokens = 0
        """Tokens of prompts that sessions keep by now, of each prompt those beyond the one it begins like."""
        self._shared: WeakValueDictionary[SharedName, TokenStream] = WeakValueDictionary()
        self._kept: list[TokenStream] = []
        self._separation = Separation()
        self._noted: set[SharedName] = set()
        """Shared streams that were made once; those of groups are freed with their sessions and may be made again."""
        self._unseparated_in_sessions = 0
        self.crowded = self._partings.crowded(vocabulary.size)
        """Streams of the run that one token cannot keep apart from all others: too many for the vocabulary."""
        self.lost_tokens = self._over_sessions([plan.lost_tokens for plan in self._plans])
        """Prompt tokens of the run that are shared as recorded and cannot be as prompts are written."""
        self.too_short = self._over_sessions([plan.too_short for plan in self._plans])
        """Prompts of the run that are longer than recorded, because none can be so short."""

    @property
    def unseparated(self) -> int:
        """Streams of closed sessions that went on like another one where they should part, by a token at least."""
        return self._unseparated_in_sessions + self._separation.unseparated

    def _over_sessions(self, counts: Sequence[int]) -> int:
        """Add up what there is once a trace over all sessions."""
        copies, rest = divmod(self._sessions, len(counts))
        return copies * sum(counts) + sum(counts[:rest])

    def session(self, number: int) -> SessionPrompts:
        """Return the prompts of one session, 0 <= number < sessions."""
        if not 0 <= number < self._sessions:
            raise IndexError(f"session {number} of {self._sessions}")
        return SessionPrompts(self, number)

    def shared_prefix(self, name: SharedName) -> SentTokens:
        """Return the tokens of a shared prefix that streams begin like."""
        return self._shared_stream(SharedKey(name.campaign, name.id, name.domain), name.copy or 0).sent()

    def shared_prompts(self) -> list[SharedPrompt]:
        """Return the prompts with which a server is sent the shared prefixes of kind `system` that calls begin with."""
        streams = [self._shared_stream(key, copy=0) for key in self._partings.preloadable()]
        return [
            SharedPrompt(stream.name, stream.array(), stream.prompt_tokens, self._rendering.tail)
            for stream in streams
            if isinstance(stream.name, SharedName)
        ]

    def _shared_stream(self, key: SharedKey, copy: int) -> TokenStream:
        of = self._partings.shared[key]
        name = SharedName(key.campaign, key.id, copy if of.by_copy else None, key.domain)
        stream = self._shared.get(name)
        if stream is None:
            stream = self._make_shared(name, self._partings.of_shared(key, copy), of.tokens, copy)
            self._shared[name] = stream
            if name.copy is None:
                self._kept.append(stream)
        return stream

    def _make_shared(self, name: SharedName, parting: Parting, tokens: int, copy: int) -> TokenStream:
        scope = ("shared", name.copy, name.domain) if name.domain else ("shared", name.copy)
        stream = self._stream(
            name,
            (name.campaign, scope, name.id),
            parting,
            of=self._shared_stream(parting.of, copy) if isinstance(parting.of, SharedKey) else None,
            prompt_tokens=tokens,
            stream_tokens=tokens,
            layout=self._rendering.shared_layout(is_root=parting.of is None),
        )
        stream.build()
        stream.seal()
        if name not in self._noted:
            self._noted.add(name)
            self._note(stream)
        return stream

    def _stream(
        self,
        name: StreamName,
        identity: tuple[Identity, ...],
        parting: Parting,
        *,
        of: TokenStream | None,
        prompt_tokens: int,
        stream_tokens: int,
        layout: Layout,
    ) -> TokenStream:
        return TokenStream(
            name=name,
            run=self._run,
            identity=(*self._run, *identity),
            of=of,
            parting=parting,
            prompt_tokens=prompt_tokens,
            stream_tokens=stream_tokens,
            vocabulary=self._vocabulary,
            layout=layout,
            new_text=self._rendering.text,
        )

    def _note(self, stream: TokenStream) -> None:
        """Keep account of a place of the run where chance or a server could keep streams from parting."""
        if stream.parting.ways > 1 or stream.parting.is_crowded(self._vocabulary.size):
            stream.add_to(self._separation)

    def _close(self, streams: list[TokenStream]) -> None:
        inner = Separation()
        for stream in streams:
            if isinstance(stream.parting.of, int):
                stream.add_to(inner)
            else:
                self._note(stream)
        self._unseparated_in_sessions += inner.unseparated


class SessionPrompts:
    """The prompts of one session; made by `PromptPlan.session`."""

    __slots__ = ("_closed", "_copy", "_kept_tokens", "_number", "_outline", "_plan", "_repeats", "_scope", "_streams")

    def __init__(self, plan: PromptPlan, number: int) -> None:
        self._plan = plan
        self._number = number
        self._copy, trace = divmod(number, len(plan._outlines))
        self._outline = plan._outlines[trace]
        self._scope = ("session", number, self._copy)
        self._streams: dict[int, TokenStream] = {}
        """Those that were asked for, and those that they begin like."""
        self._repeats: dict[tuple[object, int], list[TokenStream]] = {}
        self._kept_tokens = 0
        self._closed = False

    def prompt(self, call: int) -> bytes:
        """Return the prompt of a call as the JSON array that is sent: of its ids, or of its messages.

        What it takes of an output is what `output` was told by now; a prompt that is sent does not change any more.
        """
        stream = self._built(call)
        stream.is_sent = True
        return stream.array()

    def ids(self, call: int) -> TokenIds:
        """Return the ids of the prompt of a call."""
        return self._built(call).prompt_ids()

    async def answered(self, call: int, exchange: Exchange) -> bool:
        """Take note of a whole answer; return whether prompts can take it up, which the server may have to be asked."""
        ids = await self._plan._rendering.whole_answer(exchange, taken_up=self._taken_up(call))
        self.output(call, ids)
        return ids is not None

    def answering(self, call: int, exchange: Exchange) -> bool:
        """Take note of what has arrived of an answer; return whether prompts can take it up."""
        ids = self._plan._rendering.partial_answer(exchange, taken_up=self._taken_up(call))
        self.output(call, ids)
        return ids is not None

    def output(self, call: int, ids: ArrayLike | None) -> None:
        """Tell what the server has returned to a call by now, all of it; None when it returns no ids.

        May be told again as more arrives. Prompts take as many of these ids as the trace says, drawn ones beyond.
        """
        self._stream(call).received = NO_TOKENS if ids is None else np.asarray(ids, np.uint32)

    def sent(self, call: int) -> SentTokens:
        """Return the stream of a call that was sent, named after one that was sent too or a shared prefix."""
        return self._stream(call).sent()

    def make_room(self) -> None:
        """Free what can be made again, if all sessions together keep a lot; to be called before a longer wait."""
        if self._plan.kept_tokens > self._plan._most_kept_tokens:
            self._free()

    def close(self) -> None:
        """Free the text of the session when it has ended; `sent` goes on working."""
        if not self._closed:
            self._plan._close([stream for stream in self._streams.values() if stream.is_made])
        self._closed = True
        self._free()
        for streams in self._repeats.values():
            streams.clear()

    def _free(self) -> None:
        for stream in self._streams.values():
            stream.free()
        self._plan.kept_tokens -= self._kept_tokens
        self._kept_tokens = 0

    def _taken_up(self, call: int) -> AbstractSet[int]:
        return self._outline.taken_up.get(call, _BY_NOBODY)

    def _stream(self, call: int) -> TokenStream:
        """Return the stream of a call, after those that it begins like."""
        missing: list[tuple[int, Parting]] = []
        origin: Origin = call
        while isinstance(origin, int) and origin not in self._streams:
            parting = self._plan._partings.of_call(self._number, origin)
            missing.append((origin, parting))
            origin = parting.of
        for earlier, parting in reversed(missing):
            self._streams[earlier] = self._new_stream(earlier, parting)
        return self._streams[call]

    def _new_stream(self, call: int, parting: Parting) -> TokenStream:
        laid_out, planned = self._outline.laid_out, self._outline.calls[call]
        stream = self._plan._stream(
            CallName(self._number, call),
            (laid_out.trace.campaign, self._scope, call),
            parting,
            of=self._origin(parting),
            prompt_tokens=planned.prompt_tokens,
            stream_tokens=planned.stream_tokens,
            layout=laid_out.layout(call),
        )
        if parting.ways > 1:
            stream.repeats = self._repeats.setdefault((parting.of, parting.tokens), [])
            if parting.tokens == stream.prompt_tokens:
                stream.repeats.append(stream)
        return stream

    def _origin(self, parting: Parting) -> TokenStream | None:
        if isinstance(parting.of, SharedKey):
            return self._plan._shared_stream(parting.of, self._copy)
        return None if parting.of is None else self._streams[parting.of]

    def _built(self, call: int) -> TokenStream:
        """Return the stream of a call after all that its prompt begins like have been made."""
        built = self._stream(call)
        stream: TokenStream | None = built
        missing = []
        while stream is not None and not stream.is_built:
            missing.append(stream)
            stream = stream.of
        for stream in reversed(missing):
            stream.build()
        tokens = sum(stream.prompt_tokens - stream.leaves_at for stream in missing)
        self._kept_tokens += tokens
        self._plan.kept_tokens += tokens
        return built
