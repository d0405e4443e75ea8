"""The journal of a recording in progress: JSON Lines that survive a kill, from which the trace is computed.

The first line is the header; then one record a line, flushed as it happens: `part` (a part of a prompt, by keyed
digests and sizes), `open` (a request), `end` (its answer: times and usage), `measured` (a prompt whose token ids the
server gave) and `counted` (a part whose text a tokenizer at hand counted); from an agent that says what it does itself
also `tool`, `wait`, `branch` and `joined`. Keyed digests, counts, times, closed sets and dense ids only; the key is nowhere.
How files of them are written and read is in `journal_files.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Le
from pydantic import AllowInfNan, ConfigDict, Strict, StringConstraints

from rotoscope.traces.model import MAX_MILLISECONDS, Count, FinishReason, Flag, HexId, Milliseconds, Positive, WaitKind

JOURNAL_FORMAT = "rotoscope.journal"
JOURNAL_VERSION = 1

SHORT_DIGEST_BYTES = 8
FIRST_BORDER_BYTES = 128
BORDER_STEP = 8
"""Each border of a long text is an eighth of the way further."""
FIRST_TEXT_BORDER_BYTES = 32
TEXT_BORDER_STEP = 64
"""The same for text without a template, which has no messages that would cut it."""

Digest: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{32}$")]
ShortDigests: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=r"^([0-9a-f]{16})*$")]
"""Digests of 8 bytes, one behind the other."""
PartRole: TypeAlias = Literal["system", "user", "tool", "assistant", "tools", "text", "opaque"]
"""The role of a message; `tools` are the tool schemas and what else a template may read beside the messages, `text` is
a stretch of a prompt without a template, `opaque` is history that the server keeps: what the recorder never saw, or many
parts that it keeps as one."""
DialectName: TypeAlias = Literal["chat", "completions", "responses", "messages", "gemini"]
ThreadSource: TypeAlias = Literal["own", "client"]
"""Who said who sends a request: our own headers, or those of the client."""
TokenizerName: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_./-]{1,60}$")]
"""A public name, or `file-` with digits of the file's digest."""
Moment: TypeAlias = Annotated[float, Strict(), Ge(-MAX_MILLISECONDS), Le(MAX_MILLISECONDS), AllowInfNan(False)]
"""A time in milliseconds since the run's first request, below 0 before it."""
HttpStatus: TypeAlias = Annotated[Count, Le(999)]

_REFUSE_UNKNOWN = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHeader:
    """Whose recording this is."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    trace_id: HexId
    """That of the trace to be."""
    campaign: HexId
    """That of the trace to be."""
    is_named: Flag = False
    """Whether the campaign goes beyond this run, so that ids of shared prefixes follow from digests."""
    tokenizer: TokenizerName | None = None
    """What counts texts, null when nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSeen:
    """A part of a prompt behind the parts before it; written when it is first seen."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    part: Count
    """Number, by first appearance."""
    parent: Count | None = None
    """The part it stands behind, None at the start of a prompt."""
    role: PartRole
    """Whose message it is."""
    digest: Digest
    """Of this part and all before it, exactly as they were sent."""
    borders: ShortDigests
    """Of its text alone, without what tokenizers or templates may ignore, up to each border; the last is the whole."""
    text_bytes: Count
    """UTF-8 bytes of its text, arguments of tool calls included."""
    loose_bytes: Count
    """Bytes of the text that the borders are digests of."""
    most_tokens: Count
    """No tokenizer that falls back on bytes and no template makes more of it."""
    reasoning_bytes: Count = 0
    """Thinking that was sent back with an answer."""
    has_calls: Flag = False
    """An answer that asks for tools."""
    masked: Digest | None = None
    """The digest without what changes by itself, of this part and all before it; None where it is the same."""

    @property
    def is_ids(self) -> bool:
        """Whether it is a stretch of token ids, which are of one length."""
        return self.role == "text" and self.most_tokens < self.text_bytes

    def border_ends(self) -> tuple[int, ...]:
        """Return where in its text the borders are, in bytes."""
        return text_border_ends(self.loose_bytes) if self.role == "text" else border_ends(self.loose_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOpened:
    """A request that arrived."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    call: Count
    """In order of arrival; attempts that failed are numbered too."""
    dialect: DialectName = "chat"
    """The interface it came through."""
    domain: Count
    """Which cache it can hit."""
    head: Count
    """The last part of its prompt."""
    request: Count | None = None
    """Shared by the choices of one request."""
    at_ms: Milliseconds
    """When it arrived; the run's first request is at 0."""
    thread: Count | None = None
    """Who sent it within the run, by its own word; a number by first appearance."""
    parent: Count | None = None
    """The thread that began this one."""
    thread_source: ThreadSource | None = None
    """Whose word that is."""
    window: Count | None = None
    """How often that one was seen to have summed up what was said, by its own word."""
    previous: Count | None = None
    """The call whose response it names as what it goes on from."""
    is_opaque: Flag = False
    """Whether it goes on from a response that was not seen."""
    answers: Count | None = None
    """The call that asked for the tools whose results it ends with, by their ids."""
    results: tuple[Count, ...] = ()
    """Which of the tools of that call they are of, from 0; empty where they are of the first ones, or nobody knows."""
    aux: Flag = False
    """Whether it is beside the agent's work, such as making a title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """How a call ended."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    call: Count
    """The call that ended."""
    at_ms: Milliseconds
    """When it ended."""
    finish_reason: FinishReason
    """Why it ended."""
    status: HttpStatus = 0
    """Of HTTP; 0 when there was no answer."""
    ttft_ms: Milliseconds | None = None
    """From the request to the first piece of output."""
    prompt_tokens: Positive | None = None
    """By usage, as the next three; None where the server did not tell."""
    completion_tokens: Count | None = None
    """Length of the output, reasoning included."""
    reasoning_tokens: Count | None = None
    """How many tokens of the output are reasoning."""
    cached_tokens: Count | None = None
    """What the server found in its cache."""
    media_tokens: Count | None = None
    """How many tokens of the prompt are images, audio or video."""
    output_bytes: Count = 0
    """What was delivered, thinking included."""
    reasoning_bytes: Count = 0
    """How much of it was thinking."""
    alike_bytes: Count = 0
    """How much its thinking and what follows it have in common at their start."""
    chunks: Count = 0
    """Pieces of output that were delivered."""
    answer: Count | None = None
    """The part that the whole answer is when it is sent back, thinking included."""
    tools: tuple[Count, ...] = ()
    """Pseudonyms of the tools it asked for."""
    is_split: Flag = False
    """Whether completion_tokens is this choice's share of a sum."""
    is_prompt_split: Flag = False
    """Whether prompt_tokens is this prompt's share of a sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMeasured:
    """The prompt's token ids are known: it shares exactly `tokens` with `of` and no more with any measured before."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    call: Count
    """The call whose prompt was measured."""
    of: Count | None = None
    """A call measured before, None where it shares nothing with any."""
    tokens: Count
    """Length of the common prefix."""
    prompt_tokens: Positive
    """Length of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCounted:
    """The text of a part was counted by the tokenizer that the header names."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    part: Count
    """The part that was counted."""
    tokens: Count
    """Of its text, without thinking and without what a template adds."""
    reasoning_tokens: Count = 0
    """Of its thinking."""
    is_estimate: Flag = False
    """Whether only some of the text was counted, or it was cut for that, because it is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMeasured:
    """The token ids of a measured call's output are known too: prompts measured from here on may begin with them."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    call: Count
    """The call whose prompt was measured before."""
    stream_tokens: Positive
    """Length of its prompt and output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingEnded:
    """A text that was embedded; written when its answer has ended."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    at_ms: Milliseconds
    """When the request arrived."""
    duration_ms: Milliseconds
    """From the request to the end of the answer."""
    status: HttpStatus
    """Of HTTP."""
    prompt_tokens: Count | None = None
    """By usage; None where the server did not tell."""
    text_bytes: Count
    """UTF-8 bytes of the text, four for each token id."""
    thread: Count | None = None
    """Who sent it within the run, by its own word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRan:
    """A tool that the agent ran, timed by our code in it; written when it has ended."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    tool: Count
    """Its pseudonym."""
    thread: Count
    """Who ran it."""
    at_ms: Moment
    """When it began; below 0 before the run's first request."""
    duration_ms: Milliseconds
    """How long it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A wait that the agent told of; written when it is over."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    kind: WaitKind
    """For what."""
    thread: Count
    """Who waited."""
    at_ms: Moment
    """When it began; below 0 before the run's first request."""
    duration_ms: Milliseconds
    """How long it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchBegan:
    """A branch that the agent told of."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    thread: Count
    """Who works on it."""
    parent: Count
    """Who began it."""
    region: Count
    """Of the branches that it was begun with; a number by first appearance."""
    at_ms: Moment
    """When their region began; below 0 before the run's first request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionJoined:
    """The end of a region, when its parent had waited for all of its branches."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    region: Count
    """Which one."""
    at_ms: Moment
    """When it was joined; below 0 before the run's first request."""


JournalRecord: TypeAlias = (
    PartSeen
    | CallOpened
    | CallEnded
    | CallMeasured
    | OutputMeasured
    | PartCounted
    | EmbeddingEnded
    | ToolRan
    | Waited
    | BranchBegan
    | RegionJoined
)

RECORD_KINDS: dict[str, type[JournalRecord]] = {
    "part": PartSeen,
    "open": CallOpened,
    "end": CallEnded,
    "measured": CallMeasured,
    "output": OutputMeasured,
    "counted": PartCounted,
    "embedding": EmbeddingEnded,
    "tool": ToolRan,
    "wait": Waited,
    "branch": BranchBegan,
    "joined": RegionJoined,
}


@dataclass(frozen=True, slots=True)
class Journal:
    """A header and what was recorded under it."""

    header: JournalHeader
    records: tuple[JournalRecord, ...]


@lru_cache(maxsize=4096)
def border_ends(size: int, first: int = FIRST_BORDER_BYTES, step: int = BORDER_STEP) -> tuple[int, ...]:
    """Return where digests of a text of `size` bytes are taken; the last is its end."""
    ends, end = [], 0
    while end < size:
        end = min(size, end + max(first, end // step))
        ends.append(end)
    return tuple(ends)


def text_border_ends(size: int) -> tuple[int, ...]:
    """Return the same for text without a template."""
    return border_ends(size, FIRST_TEXT_BORDER_BYTES, TEXT_BORDER_STEP)
