"""The trace: what one agent run did to an inference server, without a token of its content.

A stream is a call's prompt followed by its output. Each call says how many leading tokens it shares with an earlier
stream (`Prefix`); the references form a forest. Events stand in the order in which the recorder saw them, calls are
numbered by the arrival of their requests. Field names are the keys of the file.

Every string field is a closed set, a dense id or a pseudonym: no field can hold text that somebody wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Gt, Le
from pydantic import AllowInfNan, ConfigDict, Strict, StringConstraints

FORMAT_NAME = "rotoscope.trace"
FORMAT_VERSION = 1

MAX_COUNT = 2**31 - 1
"""No count in a trace of an agent comes near it; a greater one is damage."""
MAX_MILLISECONDS = 1e12
"""About 30 years; a greater time or duration is damage."""

Count: TypeAlias = Annotated[int, Strict(), Ge(0), Le(MAX_COUNT)]
Positive: TypeAlias = Annotated[int, Strict(), Gt(0), Le(MAX_COUNT)]
Milliseconds: TypeAlias = Annotated[float, Strict(), Ge(0), Le(MAX_MILLISECONDS), AllowInfNan(False)]
Flag: TypeAlias = Annotated[bool, Strict()]
HexId: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{8,32}(-[0-9a-f]{4,12}){0,4}$")]
SharedId: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=r"^s[0-9]{1,15}$")]
ToolName: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=r"^tool[0-9]{1,6}$")]
ToolCallId: TypeAlias = Annotated[str, StringConstraints(strict=True, pattern=r"^t[0-9]{1,9}$")]
TokenSource: TypeAlias = Annotated[
    str, StringConstraints(strict=True, pattern=r"^(usage|estimate|given|tokenizer:[A-Za-z0-9_./-]{1,60})$")
]
"""Where a count comes from: the server's usage, a named public tokenizer, an estimate, or the file it was read from."""
PrefixSource: TypeAlias = Annotated[
    str,
    StringConstraints(
        strict=True,
        pattern=r"^(ids|usage|text|estimate|assumed|opaque|blocks|messages|tokenizer:[A-Za-z0-9_./-]{1,60})$",
    ),
]
"""How a prefix is known (trace model, R5); `blocks` and `messages` are those of foreign formats."""

Role: TypeAlias = Literal["system", "user", "tool", "assistant"]
FinishReason: TypeAlias = Literal[
    "stop", "length", "tool_calls", "content_filter", "cancelled", "error", "lost", "unknown"
]
TimeSource: TypeAlias = Literal["sdk", "client", "gap"]
"""Who measured a tool: our code in the agent, the client, or nobody, so that it is the gap between two requests."""
WaitKind: TypeAlias = Literal["think", "human", "agent"]
"""Until an agent that was asked for begins (`agent`), for a person (`human`), or for what nobody told (`think`)."""
Outputs: TypeAlias = Literal["known", "unknown", "assumed"]
LinkEvidence: TypeAlias = Literal[
    "own", "client", "response", "tools", "prefix", "again", "answer", "rewind", "compaction", "duplicate"
]
"""How it is known which call a call goes on from: our header or the client's ids name the line of calls, the request
names the response or carries results of the tools that it asked for, the prompt goes on behind all of its stream, is
the same again, only holds its last answer, or only a part of its list (a rewind, or a fork that nobody went back
behind), or is shorter with the same instructions (a compaction). A `duplicate` begins its conversation: the same prompt
was in flight."""
ForkEvidence: TypeAlias = Literal["own", "client", "prefix", "tools", "time"]
"""How it is known on whose branch a region stands: our header or the client's ids say who began its branches, their
prompts begin with that branch's history, they ran while that branch alone waited for tools, or they only overlap in time."""
SharedKind: TypeAlias = Literal["system", "group"]
Branch: TypeAlias = tuple[Count, Count]
"""(region, index); the root branch is None."""

_REFUSE_UNKNOWN = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class SharedPrefixLink:
    """Say that a shared prefix begins like another one."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    of: SharedId
    """A shared prefix that stands before this one."""
    tokens: Positive
    """How many tokens both begin with."""
    low: Count | None = None
    """Least true value for the calls that use them; null means `tokens`."""
    high: Count | None = None
    """Greatest true value for the calls that use them, which may go on alike behind either; null means `tokens`."""

    @property
    def least(self) -> int:
        return self.tokens if self.low is None else self.low

    @property
    def greatest(self) -> int:
        return self.tokens if self.high is None else self.high


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A stream without output whose identity holds across the traces of a campaign (R7)."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    id: SharedId
    """Unique in its campaign: `s0`, `s1`, ... where that is one run, else a number that follows from a keyed digest."""
    kind: SharedKind
    """`system`: instructions and tools; `group`: seen to be shared between sessions, so not public."""
    tokens: Positive
    """Length of the whole stream."""
    prefix: SharedPrefixLink | None = None
    """The shared prefix it begins like."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Say that my first `tokens` tokens are the first ones of the stream `of`, and that we then part (R3)."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    of: Count | SharedId | None
    """An earlier call, a shared prefix, or None exactly when `tokens` is 0."""
    tokens: Count
    """How many leading tokens are the same as those of `of`."""
    source: PrefixSource
    """How this is known."""
    low: Count | None = None
    """Least true value; None means `tokens`."""
    high: Count | None = None
    """Greatest true value; None means `tokens`."""

    @property
    def least(self) -> int:
        return self.tokens if self.low is None else self.low

    @property
    def greatest(self) -> int:
        return self.tokens if self.high is None else self.high


NO_PREFIX = Prefix(of=None, tokens=0, source="text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event has: the branch it happened on, None for the root."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    branch: Branch | None = None
    """`[region, index]` of the fan-out whose child this happened on; None on the root."""
    branch_path: tuple[Count, ...] = ()
    """For display and export only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Event):
    """A message that entered a conversation, by size; at index k it first cuts the conversation to k."""

    conversation_id: Count
    """Dense id of a list of messages within the run."""
    role: Role
    """Who wrote it."""
    message_index: Count
    """Its place in the conversation, which it cuts to this length first."""
    tokens: Count
    """Its size."""
    tokens_source: TokenSource | None = None
    """Where the size comes from, if not where the header says."""
    system_prompt_id: SharedId | None = None
    """The shared prefix that this message is the text of."""
    media_tokens: Count | None = None
    """How many of the tokens are images, audio or video."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Event):
    """One prompt with one output; written as a message of role `assistant`."""

    call: Count
    """Number by arrival of the request; earlier means smaller."""
    domain: Count = 0
    """Which cache it can hit: two models, adapters or cache salts have nothing in common."""
    conversation_id: Count
    """The conversation that its answer enters."""
    message_index: Count
    """Place of the answer in the conversation."""
    prompt_tokens: Positive
    """Length of the prompt."""
    prompt_tokens_source: TokenSource | None = None
    """Where the length comes from, if not where the header says."""
    completion_tokens: Count
    """Length of the output, reasoning included."""
    completion_tokens_source: TokenSource | None = None
    """Where the length comes from, if not where the header says."""
    reasoning_tokens: Count = 0
    """How many tokens of the output are reasoning."""
    reasoning_unsized: Flag = False
    """Whether the output holds reasoning of which only that is known; `reasoning_tokens` is 0 then."""
    media_tokens: Count | None = None
    """How many tokens of the prompt are images, audio or video."""
    prefix: Prefix
    """What its stream shares with an earlier one."""
    masked: Prefix | None = None
    """What it would share with an earlier call if lines that change by themselves were left out; None: no more."""
    cached_tokens: Count | None = None
    """What the server reported; evidence, not identity."""
    tool_calls: tuple[ToolName, ...] = ()
    """Pseudonyms of the tools that the answer asks for."""
    finish_reason: FinishReason = "unknown"
    """Why the output ended; `lost`: the recording ended first."""
    request: Count | None = None
    """Shared by calls that came in one request (several choices or prompts)."""
    at_ms: Milliseconds | None = None
    """When the request arrived; the run's first request is at 0, or what the agent told of before it."""
    ttft_ms: Milliseconds | None = None
    """From the request to the first piece of output."""
    duration_ms: Milliseconds | None = None
    """From the request to the end of the answer."""
    attempts: Positive | None = None
    """How many requests it took, failed ones included."""
    aux: Flag = False
    """Whether it is beside the agent's work, such as making a title."""
    link: LinkEvidence | None = None
    """How it is known that it goes on from the call before it in its conversation; None where it begins one, or where
    nobody told."""
    rivals: Positive | None = None
    """How many other calls it could as well have gone on from, or could as well stand in its place, as far as anyone
    can see; None: no other."""

    @property
    def stream_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Event):
    """An embedding request; it has no stream."""

    prompt_tokens: Count
    """Length of what was embedded."""
    at_ms: Milliseconds | None = None
    """When the request arrived."""
    duration_ms: Milliseconds | None = None
    """From the request to the end of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Event):
    """A tool that the agent ran; with `call` and `at_ms`, tools of one answer may overlap in time."""

    tool_call_id: ToolCallId
    """`t0`, `t1`, ..."""
    tool_name: ToolName
    """A pseudonym: `tool0`, `tool1`, ..."""
    duration_ms: Milliseconds
    """How long the tool ran."""
    call: Count | None = None
    """The call whose answer asked for it."""
    at_ms: Milliseconds | None = None
    """When it began."""
    time_source: TimeSource | None = None
    """`gap`: from the answer to the next request, an upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Event):
    """Time of the client that is no tool."""

    kind: WaitKind
    """What the client did meanwhile."""
    duration_ms: Milliseconds
    """How long it took."""
    at_ms: Milliseconds | None = None
    """When it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelStart(Event):
    """A fan-out on the parent's branch; child i is the branch (region, i)."""

    region: Count
    """Number of the region."""
    num_branches: Positive
    """How many children it has."""
    evidence: ForkEvidence | None = None
    """How it is known who began them; None where nobody told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelEnd(Event):
    """The join of a region, on the parent's branch; a region without one is never joined."""

    region: Count
    """Number of the region that is joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropKvCache(Event):
    """The agent said that its cache may be dropped."""


TraceEvent: TypeAlias = Message | Call | Embedding | ToolCall | Wait | ParallelStart | ParallelEnd | DropKvCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The record of one agent run (one job)."""

    __pydantic_config__: ClassVar[ConfigDict] = _REFUSE_UNKNOWN

    trace_id: HexId
    """Random."""
    campaign: HexId
    """Random; shared prefixes are the same where campaign and id are."""
    token_source: TokenSource
    """Where counts come from unless an event says otherwise."""
    prefix_granularity: Positive = 1
    """Prefixes are known in multiples of this many tokens only."""
    outputs: Outputs = "known"
    """Whether prefixes may reach into outputs: unknown for block formats, which do not say, unless it is assumed."""
    volatile: Literal["sent", "masked"] = "sent"
    """`masked`: lines that change by themselves, such as dates, were left out of the comparison of prompts."""
    output_matches: Count = 0
    """Equal beginnings of outputs that were seen and dropped (R4)."""
    shared_prefixes: tuple[SharedPrefix, ...] = ()
    """In an order in which each stands behind the one it begins like."""
    events: tuple[TraceEvent, ...] = ()
    """In the order in which they were seen."""

    def calls(self) -> Iterator[Call]:
        """Yield the calls in the order of their numbers."""
        return iter(sorted((e for e in self.events if isinstance(e, Call)), key=lambda c: c.call))
