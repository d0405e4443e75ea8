"""What TensorRT-LLM's own tools make of a TensorRT-LLM trace, faults included; for comparison only.

They differ from this project's reading of the same file, and where they do they are wrong about the run that was
recorded: a message at an old index overwrites one slot and leaves the tail behind it (rewind, retry), a system prompt
is known by the name of its template, and the replay engine gives a child branch no history (fork). Every figure comes
from a reconstruction of those tools after their description, not from running them.

Streams are lists of extents (segment, tokens): two streams share leading tokens as long as their segments are the
same. Only the end of a segment can be missing: a system prompt that was rendered shorter, a prompt that was cut.

- `v6_token_radix` counts tokens: a hit is the longest common prefix, at any token. Blocks are counted up, and one is
  added when the hit ends on a border of blocks.
- `v3_full_blocks` counts whole blocks, never the last token of a stream; what is looked up and what is kept is cut or
  padded to the recorded lengths, the conversation itself is not. Hit tokens are whole blocks.

In both, what a call leaves in the cache is the conversation before the slot of its answer, its reasoning, its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats.trtllm_events import (
    AnySourceEvent,
    Path,
    SourceCall,
    SourceDrop,
    SourceFork,
    SourceJoin,
    SourceMessage,
    parse_trtllm,
)

Analyzer: TypeAlias = Literal["v6_token_radix", "v3_full_blocks"]
Segment: TypeAlias = tuple[str, int | str]
"""What a run of tokens is: (kind, event index), or ("system", id), whose tokens are the same wherever it stands."""
Extents: TypeAlias = tuple[tuple[Segment, int], ...]
"""A stream or a part of one: segments with the tokens of each that are there."""
Slots: TypeAlias = list[Extents]
"""A conversation, by message index."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSettings:
    """The analyzer's options, under its names and with its defaults."""

    tokens_per_block: int = 32
    decode_kv_reuse: bool = True
    """Whether what was generated stays in the cache."""
    cot_pollutes_cache: bool = True
    """Whether reasoning stays between prompt and answer there, so that the next prompt matches the prompt only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRequest:
    """One request as the analyzer sees it."""

    event_index: int
    message_index: int | None
    trace_prompt_tokens: int
    """The recorded length."""
    prompt_tokens: int
    """The length the analyzer takes: that of the assembled segments (v6) or the recorded one (v3)."""
    hit_tokens: int
    hit_blocks: int
    total_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceResult:
    """The analyzer's figures of a whole trace."""

    settings: ReferenceSettings
    requests: tuple[ReferenceRequest, ...]
    minimal_cache_blocks: int
    """v3: distinct blocks; v6: those of the longest single stream, in spite of the name."""
    preloaded_system_blocks: int
    """v3: those of all system prompts; v6: those of the longest."""

    @property
    def total_prompt_tokens(self) -> int:
        return sum(request.prompt_tokens for request in self.requests)

    @property
    def total_hit_tokens(self) -> int:
        return sum(request.hit_tokens for request in self.requests)

    @property
    def token_hit_rate(self) -> float:
        """Hit tokens by prompt tokens, over the whole trace."""
        return _ratio(self.total_hit_tokens, self.total_prompt_tokens)

    @property
    def total_blocks(self) -> int:
        return sum(request.total_blocks for request in self.requests)

    @property
    def hit_blocks(self) -> int:
        return sum(request.hit_blocks for request in self.requests)

    @property
    def block_hit_rate(self) -> float:
        """Hit blocks by prompt blocks, over the whole trace."""
        return _ratio(self.hit_blocks, self.total_blocks)

    @property
    def cacheable_prompt_tokens(self) -> int:
        """Tokens of the whole blocks of all prompts (v3)."""
        return self.total_blocks * self.settings.tokens_per_block

    @property
    def cacheable_token_hit_rate(self) -> float:
        """Hit tokens by cacheable prompt tokens (v3)."""
        return _ratio(self.total_hit_tokens, self.cacheable_prompt_tokens)


@dataclass(frozen=True, slots=True)
class ReferenceReplay:
    """The prompt lengths that the replay engine sends until it fails, if it does."""

    prompt_tokens: tuple[int, ...]
    error: str | None


def analyse_as_reference(
    data: bytes, analyzer: Analyzer = "v6_token_radix", settings: ReferenceSettings | None = None
) -> ReferenceResult:
    """Return what the named version of the reference analyzer says of a trace; it refuses some as UnusableInput."""
    settings = settings or ReferenceSettings()
    events = parse_trtllm(data).events
    _refuse(events)
    cache = _CACHES[analyzer](settings.tokens_per_block)
    for system in _longest_systems(events):
        cache.preload(system)
    requests = []
    conversations = _Conversations()
    for event in events:
        if isinstance(event, SourceMessage):
            _store(conversations.slots(event), event.message_index, _segment(event))
        elif isinstance(event, SourceCall):
            requests.append(_play(event, conversations.slots(event), cache, settings))
    return ReferenceResult(
        settings=settings,
        requests=tuple(requests),
        minimal_cache_blocks=cache.minimal_blocks,
        preloaded_system_blocks=cache.preloaded_blocks,
    )


def replay_as_reference(data: bytes) -> ReferenceReplay:
    """Return the prompt lengths of the reference replay engine, if the server answers at the recorded lengths."""
    engine = _ReplayEngine()
    for event in parse_trtllm(data).events:
        error = engine.play(event)
        if error is not None:
            return ReferenceReplay(tuple(engine.prompts), error)
    return ReferenceReplay(tuple(engine.prompts), None)


def _refuse(events: Sequence[AnySourceEvent]) -> None:
    for event in events:
        if isinstance(event, SourceDrop):
            raise UnusableInput("drop_kv_cache not supported")
        if isinstance(event, SourceMessage) and event.role == "system" and event.system_prompt is None:
            raise UnusableInput("system message without system_prompt_id (strict mode)")


def _longest_systems(events: Sequence[AnySourceEvent]) -> list[Extents]:
    longest: dict[str, int] = {}
    for event in events:
        if isinstance(event, SourceMessage) and event.system_prompt is not None:
            longest[event.system_prompt] = max(longest.get(event.system_prompt, 0), event.tokens or 0)
    return [((("system", name), tokens),) for name, tokens in longest.items()]


def _play(
    call: SourceCall, slots: Slots, cache: _TokenCache | _BlockCache, settings: ReferenceSettings
) -> ReferenceRequest:
    prompt = cache.fitted(_joined(slots), call, call.prompt_tokens)
    hit_tokens, hit_blocks, total_blocks = cache.match(prompt)
    cache.insert(prompt)
    answer = _extent("answer", call, call.content_tokens)
    if settings.decode_kv_reuse:
        before = _joined(slots[: call.message_index])
        reasoning = _extent("reasoning", call, call.reasoning_tokens if settings.cot_pollutes_cache else 0)
        generated = reasoning + answer
        cache.insert(cache.fitted(before + generated, call, call.prompt_tokens + _length(generated)))
    if answer:
        _store(slots, call.message_index, answer)
    return ReferenceRequest(
        event_index=call.index,
        message_index=call.message_index,
        trace_prompt_tokens=call.prompt_tokens,
        prompt_tokens=_length(prompt),
        hit_tokens=hit_tokens,
        hit_blocks=hit_blocks,
        total_blocks=total_blocks,
    )


@dataclass
class _Conversations:
    """The slots of every conversation of every branch; a branch starts with a copy of its nearest ancestor's."""

    known: dict[tuple[Path, int], Slots] = field(default_factory=dict)

    def slots(self, event: SourceMessage | SourceCall) -> Slots:
        path, conversation = event.branch_path, event.conversation
        if (path, conversation) not in self.known:
            ancestors = (self.known.get((path[:length], conversation)) for length in reversed(range(len(path))))
            self.known[path, conversation] = list(next(filter(None, ancestors), []))
        return self.known[path, conversation]


def _segment(event: SourceMessage) -> Extents:
    if event.system_prompt is None:
        return _extent("message", event, event.tokens or 0)
    return ((("system", event.system_prompt), event.tokens or 0),)


def _extent(kind: str, event: AnySourceEvent, tokens: int) -> Extents:
    return (((kind, event.index), tokens),) if tokens else ()


def _store(slots: list[T], index: int | None, slot: T) -> None:
    """Overwrite the slot if there is one, append otherwise; nothing is ever cut off."""
    if index is not None and index < len(slots):
        slots[index] = slot
    else:
        slots.append(slot)


def _joined(slots: Iterable[Extents]) -> Extents:
    return tuple(extent for slot in slots for extent in slot)


def _length(stream: Extents) -> int:
    return sum(tokens for _, tokens in stream)


def _cut(stream: Extents, room: int) -> Extents:
    kept = []
    for segment, tokens in stream:
        kept.append((segment, min(tokens, room)))
        room -= kept[-1][1]
    return tuple((segment, tokens) for segment, tokens in kept if tokens)


def _common(a: Extents, b: Extents) -> int:
    common = 0
    for (segment, tokens), (other, others) in zip(a, b, strict=False):
        if segment != other:
            break
        common += min(tokens, others)
        if tokens != others:
            break
    return common


@dataclass
class _TokenCache:
    """v6: a radix tree over tokens; as there are few streams they are compared one by one."""

    block: int
    streams: list[Extents] = field(default_factory=list)
    minimal_blocks: int = 0
    preloaded_blocks: int = 0

    def preload(self, system: Extents) -> None:
        self.insert(system)
        self.preloaded_blocks = max(self.preloaded_blocks, -(-_length(system) // self.block))

    def fitted(self, stream: Extents, call: SourceCall, tokens: int) -> Extents:
        """Leave the stream as it was assembled."""
        return stream

    def match(self, prompt: Extents) -> tuple[int, int, int]:
        tokens = max((_common(prompt, stream) for stream in self.streams), default=0)
        total_blocks = -(-_length(prompt) // self.block)
        hit_blocks = -(-tokens // self.block) + (tokens % self.block == 0)
        return tokens, min(hit_blocks, total_blocks), total_blocks

    def insert(self, stream: Extents) -> None:
        self.streams.append(stream)
        self.minimal_blocks = max(self.minimal_blocks, -(-_length(stream) // self.block))


@dataclass
class _BlockCache:
    """v3: whole blocks, the last token of a stream left out."""

    block: int
    streams: list[tuple[Extents, int]] = field(default_factory=list)
    minimal_blocks: int = 0
    preloaded_blocks: int = 0

    def preload(self, system: Extents) -> None:
        self.insert(system)
        self.preloaded_blocks += self._whole_blocks(system)

    def fitted(self, stream: Extents, call: SourceCall, tokens: int) -> Extents:
        """Cut or pad the stream to the length that was recorded."""
        kept = _cut(stream, tokens)
        return kept + _extent("padding", call, tokens - _length(kept))

    def match(self, prompt: Extents) -> tuple[int, int, int]:
        total_blocks = self._whole_blocks(prompt)
        hit_blocks = min(self._known_blocks(prompt), total_blocks)
        return hit_blocks * self.block, hit_blocks, total_blocks

    def insert(self, stream: Extents) -> None:
        blocks = self._whole_blocks(stream)
        self.minimal_blocks += blocks - min(self._known_blocks(stream), blocks)
        self.streams.append((stream, blocks))

    def _whole_blocks(self, stream: Extents) -> int:
        return (_length(stream) - 1) // self.block

    def _known_blocks(self, stream: Extents) -> int:
        known = (min(_common(stream, other) // self.block, blocks) for other, blocks in self.streams)
        return max(known, default=0)


_CACHES: dict[Analyzer, Callable[[int], _TokenCache | _BlockCache]] = {
    "v6_token_radix": _TokenCache,
    "v3_full_blocks": _BlockCache,
}


@dataclass
class _ReplayEngine:
    """One queue and one store of segments a branch; a child starts with none, and joins pop one stack for all."""

    prompts: list[int] = field(default_factory=list)
    queues: set[Path] = field(default_factory=lambda: {()})
    forks: list[list[Path]] = field(default_factory=list)
    segments: dict[tuple[Path, int], list[int]] = field(default_factory=dict)

    def play(self, event: AnySourceEvent) -> str | None:
        """Take one event; return the error it raises."""
        if event.branch_path not in self.queues:
            return f"KeyError: no queue for branch_path {list(event.branch_path)} (event {event.index})"
        match event:
            case SourceFork():
                self.forks.append([(*event.branch_path, child) for child in range(event.num_branches)])
                self.queues.update(self.forks[-1])
            case SourceJoin():
                self.queues.difference_update(self.forks.pop() if self.forks else [])
            case SourceMessage(role="assistant"):
                return f"ValueError: assistant without completion_tokens (event {event.index})"
            case SourceMessage():
                _store(self._conversation(event), event.message_index, event.tokens or 0)
            case SourceCall():
                segments = self._conversation(event)
                self.prompts.append(sum(segments))
                _store(segments, event.message_index, event.content_tokens)
        return None

    def _conversation(self, event: SourceMessage | SourceCall) -> list[int]:
        return self.segments.setdefault((event.branch_path, event.conversation), [])


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
