"""What is asked of every recording of a real program: lengths, no content, and a replay that shares what it should."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from captured_simulator import Place, replayed
from clients.recorded import Recorded
from clients.truth import CUT_SHORT, TrueCall, common
from forest_truth import Truth

from rotoscope.traces import Trace
from rotoscope.traces.audit import audit
from rotoscope.traces.audit_kinds import TRACE_KINDS
from rotoscope.traces.canary import Canaries


def other_lengths(calls: Sequence[TrueCall]) -> list[TrueCall]:
    """Return the calls whose lengths are not those that the server saw; an output that was left has no known length."""
    return [one for one in calls if not _has_its_lengths(one)]


def _has_its_lengths(one: TrueCall) -> bool:
    if one.call.prefix.greatest > one.call.prompt_tokens:
        return False
    lengths = one.call.prompt_tokens, one.call.completion_tokens
    return one.call.finish_reason in CUT_SHORT or lengths == (len(one.prompt), one.generation.generated)


def sent_canaries(recorded: Recorded) -> set[int]:
    """Return the numbers of the canaries that requests held, in bodies or headers."""
    sent = b"".join(request.body + repr(request.headers).encode() for request in recorded.seen)
    return {hit.canary for hit in Canaries.of(recorded.canaries).in_bytes(sent)}


def kept_content(recorded: Recorded) -> list[str]:
    """Return what an audit finds in the files of a recording, and each canary in what was said on the terminal."""
    canaries = Canaries.of(recorded.canaries)
    found = audit([recorded.folder], kinds=TRACE_KINDS, canaries=canaries).findings.kept
    return [*map(str, found), *(f"said: {hit}" for hit in canaries.in_bytes(recorded.said))]


def broken_laws_of_replay(trace: Trace, folder: Path) -> list[str]:
    """Replay a trace on the simulator; return where prompts on the wire have another length or common prefix."""
    truth = Truth.of([trace], 1)
    prompts = asyncio.run(replayed([trace], folder, lambda ids: ids))
    calls = {call.call: call for call in trace.calls()}
    broken = [
        f"call {number} was not sent with {call.prompt_tokens} tokens"
        for number, call in calls.items()
        if len(prompts.get(Place(0, number), ())) != call.prompt_tokens
    ]
    for a, b in () if broken else combinations(sorted(calls), 2):
        is_shared = calls[a].domain == calls[b].domain
        shared = truth.common(("session", 0, a), ("session", 0, b)) if is_shared else 0
        one, other = prompts[Place(0, a)], prompts[Place(0, b)]
        if common(one, other) != min(shared, len(one), len(other)):
            broken.append(f"calls {a} and {b} share {common(one, other)} tokens, not {shared}")
    return broken
