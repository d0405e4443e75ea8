"""From the records of a journal to a trace."""

from __future__ import annotations

from rotoscope.traces.journal import CallEnded, CallOpened, Journal, PartSeen
from rotoscope.traces.model import NO_PREFIX, Call, Prefix, Trace


def build_trace(journal: Journal) -> Trace | None:
    """Compute the trace of a recording; None when it holds no call."""
    parts = {record.part: record for record in journal.records if isinstance(record, PartSeen)}
    ends = {record.call: record for record in journal.records if isinstance(record, CallEnded)}
    events: list[Call] = []
    by_answer: dict[int, Call] = {}
    for opened in journal.records:
        if not isinstance(opened, CallOpened):
            continue
        end = ends.get(opened.call)
        prefix, part = NO_PREFIX, parts.get(opened.head)
        while part is not None and prefix is NO_PREFIX:
            before = by_answer.get(part.part)
            if before is not None:
                n = before.prompt_tokens + before.completion_tokens
                prefix = Prefix(before.call, n, "text", low=before.prompt_tokens)
            part = parts.get(part.parent) if part.parent is not None else None
        prompt = end.prompt_tokens if end is not None else None
        call = Call(
            call=len(events),
            domain=opened.domain,
            conversation_id=0,
            message_index=len(events),
            prompt_tokens=max(prompt or 1, prefix.tokens),
            completion_tokens=(end.completion_tokens if end else None) or 0,
            prefix=prefix,
            finish_reason=end.finish_reason if end else "lost",
            at_ms=opened.at_ms,
            duration_ms=end.at_ms - opened.at_ms if end else None,
            ttft_ms=end.ttft_ms if end else None,
            cached_tokens=end.cached_tokens if end else None,
            request=opened.request,
        )
        events.append(call)
        if end is not None and end.answer is not None:
            by_answer[end.answer] = call
    if not events:
        return None
    header = journal.header
    return Trace(trace_id=header.trace_id, campaign=header.campaign, token_source="usage", events=tuple(events))
