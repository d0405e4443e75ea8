"""Real coding agents, recorded in front of a scripted server that knows the tokens, audited, and replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from clients.checks import broken_laws_of_replay, kept_content, other_lengths, sent_canaries
from clients.truth import findings, true_calls
from coding_agents.family import is_stated, lines, links_to_others, recorded_parents, strangers, told_parents
from coding_agents.playing import Played

LONG = 12
"""Characters that a value of a header has at least that stands nowhere by chance."""


def test_every_request_is_a_call_or_an_attempt_at_one(recorded: Played) -> None:
    asked = [request for request in recorded.seen if request.is_call]

    assert sum(call.attempts or 1 for call in recorded.trace.calls()) == len(asked)


def test_lengths_are_those_of_the_server(recorded: Played) -> None:
    assert other_lengths(true_calls(recorded)) == []


def test_true_common_prefixes_lie_within_the_recorded_bounds(recorded: Played) -> None:
    assert [one for one in findings(recorded.trace, true_calls(recorded)) if not one.holds] == []


def test_nothing_that_anyone_said_is_in_any_byte(recorded: Played) -> None:
    assert sent_canaries(recorded)
    assert kept_content(recorded) == []


def test_its_replay_sends_prompts_that_share_what_the_trace_says(recorded: Played, tmp_path: Path) -> None:
    assert broken_laws_of_replay(recorded.trace, tmp_path) == []


def test_no_value_of_a_header_is_in_any_byte(recorded: Played) -> None:
    values = {value.encode() for request in recorded.seen for value in request.headers.values() if len(value) >= LONG}
    written = b"".join(path.read_bytes() for path in recorded.folder.iterdir())

    assert len(values) > 3
    assert [value for value in values if value in written] == []


def test_calls_stand_in_the_branches_of_the_agents_that_sent_them(recorded: Played) -> None:
    if recorded.agent.senders is None or recorded.play.senders is not None:
        pytest.skip("nothing that the recorder reads says who sends a request")

    assert strangers(recorded) == []
    assert recorded_parents(recorded.trace, recorded.names["branches"]) == told_parents(recorded)


def test_a_link_that_may_be_wrong_says_so(recorded: Played) -> None:
    wrong = links_to_others(lines(recorded))
    print(f"\n{len(wrong)} of {len(list(recorded.trace.calls()))} calls go on from another agent's")
    assert [line for line in wrong if not is_stated(line)] == []
