from __future__ import annotations

from rotoscope.recorder.embedding_events import with_embeddings
from rotoscope.traces.journal import EmbeddingEnded
from rotoscope.traces.model import Branch, Call, Embedding, ParallelEnd, ParallelStart, Prefix, TraceEvent

NOTHING = Prefix(None, 0, "text")


def call(number: int, at_ms: float, branch: Branch | None = None) -> Call:
    return Call(
        call=number,
        domain=0,
        conversation_id=0,
        message_index=0,
        prompt_tokens=9,
        completion_tokens=1,
        prefix=NOTHING,
        at_ms=at_ms,
        branch=branch,
    )


def embedded(at_ms: float, thread: int | None = None) -> EmbeddingEnded:
    return EmbeddingEnded(at_ms=at_ms, duration_ms=1, status=200, prompt_tokens=5, text_bytes=20, thread=thread)


def placed(events: list[TraceEvent], *embeddings: EmbeddingEnded) -> list[tuple[int, Branch | None]]:
    """Return where embeddings stand, and on which branches; call n is of thread n."""
    threads = {event.call: event.call for event in events if isinstance(event, Call)}
    merged = with_embeddings(events, embeddings, threads)
    assert [event for event in merged if not isinstance(event, Embedding)] == events
    return [(index, event.branch) for index, event in enumerate(merged) if isinstance(event, Embedding)]


FORK: list[TraceEvent] = [
    call(0, 0),
    ParallelStart(region=0, num_branches=2),
    call(1, 10, (0, 0)),
    ParallelStart(region=1, num_branches=1, branch=(0, 1)),
    call(2, 20, (1, 0)),
    call(3, 25, (0, 1)),
    ParallelEnd(region=1, branch=(0, 1)),
    call(4, 30, (0, 1)),
    ParallelEnd(region=0),
    call(5, 40),
]


def test_an_embedding_stands_behind_the_last_call_that_began_before_it() -> None:
    assert placed(FORK, embedded(-0.0), embedded(5), embedded(41)) == [(1, None), (2, None), (12, None)]
    assert placed([call(0, 7)], embedded(5)) == [(0, None)]


def test_who_sends_an_embedding_has_a_branch() -> None:
    assert placed(FORK, embedded(21, 2), embedded(26, 1)) == [(5, (1, 0)), (7, (0, 0))]


def test_behind_a_join_an_embedding_is_on_the_branch_that_was_joined() -> None:
    assert placed(FORK, embedded(31, 2)) == [(8, (0, 1))]
    assert placed(FORK, embedded(41, 2)) == [(10, None)]


def test_who_is_not_known_is_on_the_root() -> None:
    assert placed(FORK, embedded(26), embedded(26, 9)) == [(6, None), (7, None)]


def test_what_was_not_counted_is_estimated_from_its_size() -> None:
    (event,) = with_embeddings([], [EmbeddingEnded(at_ms=1, duration_ms=2, status=200, text_bytes=40)], {})

    assert event == Embedding(prompt_tokens=10, at_ms=1, duration_ms=2)
