"""What traces show of the tasks that several agents are given alike."""

from __future__ import annotations

import pytest
from coding_agents.conftest import Performer


@pytest.mark.parametrize("agent", ["gemini-cli", "opencode", "qwen-code"])
def test_a_history_that_is_summed_up_is_gone_on_from_with_a_shorter_prompt(performed: Performer, agent: str) -> None:
    calls = list(performed(agent, "compacted").trace.calls())
    last = calls[-1]
    longest = max((call for call in calls if not call.aux), key=lambda call: call.prompt_tokens)

    assert last.prompt_tokens < longest.prompt_tokens
    assert last.conversation_id == longest.conversation_id


def test_a_summary_by_a_call_of_its_own_is_a_compaction(performed: Performer) -> None:
    *_, summary, first, _, _ = performed("opencode", "compacted").trace.calls()

    assert (summary.link, summary.conversation_id) == (None, 2)
    assert (first.link, first.conversation_id) == ("compaction", 1)


def test_a_title_is_beside_the_work(performed: Performer) -> None:
    title, *others = performed("opencode", "compacted").trace.calls()

    assert title.aux
    assert not any(call.aux for call in others)
