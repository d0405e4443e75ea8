from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.job_path import JobSplit, JoinWaits, Path, PathPart

PARTS: list[PathPart] = ["queue_prefill_s", "decode_s", "tool_s", "client_s", "overhead_s"]


def asked(sent_s: float, first_token_s: float | None = None) -> Exchange:
    return Exchange(prompt=b"[]", output_tokens=1, sent_s=sent_s, first_token_s=first_token_s)


def test_a_request_is_queued_until_its_first_token_and_then_decodes() -> None:
    path = Path(1.0).through(asked(1.5, 3.0), 7.0)

    assert path.until_s == 7.0
    assert path.split_from(1.5) == JobSplit(queue_prefill_s=1.5, decode_s=4.0)


def test_an_answer_without_a_token_decodes_for_no_time() -> None:
    assert Path(1.0).through(asked(1.0), 3.0).split_from(1.0) == JobSplit(queue_prefill_s=2.0)


def test_what_a_part_of_an_answer_leads_to_begins_when_the_part_came() -> None:
    path = Path(0.0).through(asked(0.0, 2.0), 3.0).then("tool_s", 9.0)

    assert path.split_from(0.0) == JobSplit(queue_prefill_s=2.0, decode_s=1.0, tool_s=6.0)


def test_what_came_before_the_jobs_first_request_is_no_part_of_it() -> None:
    path = Path(0.0).then("client_s", 4.0).then("tool_s", 5.0).through(asked(5.5, 6.0), 8.0)

    assert path.split_from(5.5) == JobSplit(queue_prefill_s=0.5, decode_s=2.0)
    assert path.split_from(3.0) == JobSplit(queue_prefill_s=0.5, decode_s=2.0, tool_s=1.0, client_s=1.0, overhead_s=0.5)


def test_a_request_sent_late_has_cost_the_replay_its_own_time() -> None:
    path = Path(0.0).through(asked(0.0, 1.0), 2.0).through(asked(2.25, 3.0), 4.0)

    assert path.split_from(0.0).overhead_s == 0.25


def test_no_path_goes_back_in_time() -> None:
    path = Path(5.0).then("tool_s", 4.0)

    assert path.until_s == 5.0
    assert path.split_from(0.0) == JobSplit()


@given(
    st.lists(st.tuples(st.sampled_from(PARTS), st.integers(0, 9)), max_size=8),
    st.lists(st.tuples(st.sampled_from(PARTS), st.integers(0, 9)), max_size=8),
    st.integers(0, 40),
)
def test_a_split_adds_up_to_the_time_since_the_start(
    before: list[tuple[PathPart, int]], after: list[tuple[PathPart, int]], start_s: int
) -> None:
    path = Path(0.0)
    for part, seconds in before:
        path = path.then(part, path.until_s + seconds)
    sent_s = path.until_s
    path = path.through(asked(sent_s, sent_s + 1.0), sent_s + 3.0)
    for part, seconds in after:
        path = path.then(part, path.until_s + seconds)

    start_s = min(start_s, int(sent_s))
    split = path.split_from(float(start_s))
    assert sum(split) == path.until_s - start_s
    assert split.generating_s + split.waiting_s == sum(split)


@given(st.tuples(*[st.floats(0, 1e5) for _ in PARTS]))
def test_rounded_parts_add_up_as_well(seconds: tuple[float, ...]) -> None:
    split = JobSplit(*seconds)

    assert abs(sum(split.rounded()) - round(sum(split), 6)) < 1e-9
    assert all(abs(one - other) <= 1.1e-6 for one, other in zip(split, split.rounded(), strict=True))


def test_branches_wait_at_a_join_for_the_last_of_them() -> None:
    waits = JoinWaits()
    waits.came(9, (0, 0), 4.0)
    waits.came(9, (0, 1), 7.0)
    waits.came(9, (0, 1), 6.0)
    waits.came(9, (0, 2), 10.0)

    waits.joined(9, 10.0)
    waits.joined(11, 20.0)

    assert waits.total_s == 6.0 + 3.0
