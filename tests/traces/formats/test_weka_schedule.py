from __future__ import annotations

from pathlib import Path

from foreign_traces import agent, request, weka

from rotoscope.traces.formats.weka_requests import parse_weka
from rotoscope.traces.formats.weka_schedule import Schedule


def schedule(*entries: dict[str, object]) -> Schedule:
    return Schedule.of(parse_weka(weka(*entries)))


def starts(schedule: Schedule) -> list[list[float]]:
    return [[agent.start_ms for agent in region.agents] for region in schedule.regions]


def test_calls_are_numbered_by_time_and_ties_by_their_place() -> None:
    found = schedule(
        request(0, [0]), agent(5, request(0, [1]), request(9, [2])), request(5, [3]), request(10, [4]), request(10, [5])
    )

    assert [sent.request.block_ids[0] for sent in found.calls()] == [0, 1, 3, 4, 5, 2]
    assert [sent.sent_ms for sent in found.calls()] == [0, 5000, 5000, 10000, 10000, 14000]


def test_inner_times_that_are_not_less_than_the_entrys_are_absolute_and_it_stands_at_its_start() -> None:
    found = schedule(request(0, [0], api_time=3), agent(5, request(6, [1]), request(9, [2]), duration_ms=1500))

    assert [sent.sent_ms for sent in found.calls()] == [0, 6000, 9000]
    assert starts(found) == [[5000]]


def test_inner_times_that_would_be_after_the_end_are_absolute_though_the_entry_stands_at_its_end() -> None:
    entry = agent(71, request(12, [1]), request(70, [2]), duration_ms=60_000)

    found = schedule(request(0, [0], api_time=10), entry)

    assert [sent.sent_ms for sent in found.calls()] == [0, 12_000, 70_000]
    assert (found.regions[0].start_ms, found.regions[0].end_ms) == (11_000, 71_000)


def test_an_entry_whose_duration_reaches_back_to_the_answer_stands_at_its_end() -> None:
    found = schedule(request(0, [0], api_time=10), agent(71, request(0, [1]), duration_ms=60_000))

    assert (found.regions[0].start_ms, found.regions[0].end_ms) == (11_000, 71_000)


def test_an_entry_whose_duration_reaches_back_before_the_answer_stands_at_its_start() -> None:
    found = schedule(request(0, [0], api_time=10), agent(11, request(0, [1]), duration_ms=60_000))

    assert (found.regions[0].start_ms, found.regions[0].end_ms) == (11_000, 71_000)


def test_times_in_whole_seconds_may_put_a_start_a_little_before_the_answer() -> None:
    found = schedule(request(4, [0], api_time=10), agent(73.5, request(0, [1]), duration_ms=60_000))

    assert found.regions[0].start_ms == 13_500


def test_a_start_is_never_before_the_request_that_asked_for_it() -> None:
    found = schedule(request(4, [0]), agent(63.5, request(0, [1]), duration_ms=60_000))

    assert found.regions[0].start_ms == 4000


def test_an_agent_without_a_duration_stands_at_its_start_and_ends_with_its_last_answer() -> None:
    found = schedule(request(0, [0]), agent(5, request(0, [1], api_time=9), request(3, [2], api_time=1)))

    assert (found.regions[0].start_ms, found.regions[0].end_ms) == (5000, 14_000)


def test_requests_that_stand_out_of_order_are_put_in_order() -> None:
    inner = agent(50, request(7, [1]), request(2, [2]))

    found = schedule(request(9, [0]), request(5, [3]), inner)

    assert [sent.request.block_ids[0] for sent in found.parent] == [3, 0]
    assert [sent.request.block_ids[0] for sent in found.regions[0].agents[0].line] == [2, 1]


def test_agents_between_two_requests_of_the_parent_are_one_region() -> None:
    found = schedule(agent(0), agent(1), request(2, [0]), agent(3), request(4, [1]), request(5, [2]), agent(6))

    assert starts(found) == [[0, 1000], [3000], [6000]]


def test_sub_agents_of_the_published_files_start_within_a_second_after_the_answer_that_asked(data_dir: Path) -> None:
    delays = []
    for name in ("trace_0277", "trace_0291"):
        found = Schedule.of(parse_weka((data_dir / "weka" / f"{name}.json").read_bytes()))
        for region in found.regions:
            asked = max((sent for sent in found.parent if sent.sent_ms < region.start_ms), key=lambda s: s.sent_ms)
            following = next(sent for sent in found.parent if sent.sent_ms > region.start_ms)
            assert asked.ended_ms is not None
            delays += [agent.start_ms - asked.ended_ms for agent in region.agents]
            assert region.end_ms < following.sent_ms

    assert len(delays) == 6
    assert all(0 < delay < 1000 for delay in delays)
