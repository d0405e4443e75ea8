"""Real coding agents, recorded in front of a scripted server that knows the tokens, audited, and replayed."""

from __future__ import annotations

from pathlib import Path

from clients.checks import broken_laws_of_replay, kept_content, other_lengths, sent_canaries
from clients.truth import findings, true_calls
from coding_agents.playing import Played


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
