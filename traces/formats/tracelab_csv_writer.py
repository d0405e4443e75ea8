"""Write traces as rows for TraceLab's replayer: what a prompt keeps, what is new in it, and one wait behind each answer.

A branch is a session of its own. A row gives what its prompt keeps of the prompt and answer before it in its session,
which is all that the replayer can keep: it fills up what else is said to be kept with tokens of its own. The form is that
of `replay/src/trace.rs`, `tokens.rs` and `session.rs` of uw-syfi/TraceLab at 0b8a262; its loader was tried, its runs were not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rotoscope.traces.corpus import Member
from rotoscope.traces.forest import Forest
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.tracelab_writer import (
    ASSUMED,
    BOUNDS,
    BRANCHES,
    CACHED,
    FINISH,
    FIRST_TOKENS,
    LENGTHS,
    NO_CLOCK,
    OTHERS,
    Session,
    note_calls,
    sessions_of,
    traces_of,
)
from rotoscope.traces.formats.written_times import behind_last_calls
from rotoscope.traces.model import Call, ToolCall, Wait

OWN_PREFIXES = Aspect("prefixes", "kept", "as far as they lie in the round before")
GAPS = Aspect("tools and waits", "approximated", "one wait behind each answer", "events")
NO_CALL_AFTER = Aspect("tools and waits", "lost", "no call of their branch follows", "events")
EMPTY_OUTPUTS = Aspect("empty outputs", "approximated", "one token")
OTHER_PREFIXES = Aspect("prefixes beyond the round before", "lost", "only that one can be named")
DURATIONS = Aspect("times of later rounds", "lost", "they follow from the answers and waits before")
NO_DOMAINS = Aspect("cache domains", "lost", "rows have no model")

WRITE_ASPECTS = (
    *(LENGTHS, OWN_PREFIXES),
    *(ASSUMED, NO_CLOCK, BRANCHES, GAPS, EMPTY_OUTPUTS),
    *(OTHER_PREFIXES, NO_CALL_AFTER, BOUNDS, DURATIONS, FIRST_TOKENS, NO_DOMAINS, FINISH, CACHED, OTHERS),
)

COLUMNS = ("session_id", "arrival_time", "round_idx", "prefix_len", "input_len", "output_len", "tool_wait_after_ms")


def write_corpus(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the rows of a file for TraceLab's replayer, session by session."""
    sessions = list(sessions_of(members, fidelity))
    _note(sessions, fidelity)
    yield ",".join(COLUMNS).encode() + b"\n"
    for session in sessions:
        forest = Forest.of_trace(session.trace)
        arrival_ms = session.times.calls[session.calls[0].call][0]
        waits = [
            max(session.times.calls[after.call][0] - session.times.calls[before.call][1], 0.0)
            for before, after in pairwise(session.calls)
        ]
        previous: Call | None = None
        for index, (call, wait_ms) in enumerate(zip(session.calls, [*waits, 0.0], strict=True)):
            kept = _kept(forest, previous, call)
            new, output = call.prompt_tokens - kept, max(call.completion_tokens, 1)
            cells = (session.number, _number(arrival_ms), index, kept, new, output, _number(wait_ms))
            yield ",".join(map(str, cells)).encode() + b"\n"
            previous = call


def _kept(forest: Forest, previous: Call | None, call: Call) -> int:
    """Return how much of a prompt is the beginning of the stream before it in its session."""
    if previous is None or previous.domain != call.domain:
        return 0
    return min(forest.common_prefix(previous.call, call.call), call.prompt_tokens)


def _number(value: float) -> str:
    """Write a time to the microsecond, without an exponent."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _note(sessions: Sequence[Session], fidelity: Fidelity) -> None:
    note_calls(sessions, (LENGTHS, NO_DOMAINS, DURATIONS), fidelity)
    for session in sessions:
        forest = Forest.of_trace(session.trace)
        previous: Call | None = None
        for call in session.calls:
            is_own = _kept(forest, previous, call) == call.prefix.tokens
            fidelity.note(OWN_PREFIXES if is_own else OTHER_PREFIXES)
            fidelity.note(EMPTY_OUTPUTS, not call.completion_tokens)
            previous = call
    for trace in traces_of(sessions):
        last = len(behind_last_calls(trace))
        fidelity.note(GAPS, sum(isinstance(event, ToolCall | Wait) for event in trace.events) - last)
        fidelity.note(NO_CALL_AFTER, last)
