from __future__ import annotations

import gc
import json
import weakref
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.messages import Messages
from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.token_streams import SharedName
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.replayer.words import Words
from rotoscope.testing import CAMPAIGN, make_call, make_trace, trace_of
from rotoscope.traces import Prefix, SharedPrefix, SharedPrefixLink, Trace, UnusableInput

VOCABULARY = Vocabulary(1000, 33_000)
S0 = SharedPrefix("s0", "system", 40)
GROUP = SharedPrefix("s1", "group", 60, SharedPrefixLink("s0", 40))
TWO = trace_of(make_call(0, isl=100, osl=20), make_call(1, isl=150, prefix=Prefix(0, 120, "ids")))
"""A call and one that takes its whole output."""


def plan_of(
    *traces: Trace,
    seed: int = 1,
    salt: str = "salt",
    sessions: int = 1,
    vocabulary: Vocabulary = VOCABULARY,
    most_kept_tokens: int = 10**9,
) -> PromptPlan:
    return PromptPlan(
        traces, seed=seed, salt=salt, sessions=sessions, vocabulary=vocabulary, most_kept_tokens=most_kept_tokens
    )


def prompt(session: SessionPrompts, call: int) -> list[int]:
    ids = json.loads(session.prompt(call))
    assert isinstance(ids, list)
    return ids


def test_a_prompt_is_the_text_of_its_ids() -> None:
    session = plan_of(TWO).session(0)

    text = session.prompt(1)

    assert text.startswith(b"[")
    assert b" " not in text
    assert json.loads(text) == session.ids(1).tolist()
    assert session.ids(1).dtype == np.uint32


def test_prompts_never_change() -> None:
    trace = trace_of(
        make_call(0, isl=5, osl=2, prefix=Prefix("s0", 3, "ids")),
        make_call(1, isl=9, prefix=Prefix(0, 7, "ids")),
        make_call(2, isl=8, prefix=Prefix(0, 6, "ids")),
        shared_prefixes=[SharedPrefix("s0", "system", 4)],
    )
    session = plan_of(trace, sessions=2).session(0)

    assert [session.prompt(call) for call in range(3)] == [
        b"[14003,27681,17750,13614,12198]",
        b"[14003,27681,17750,13614,12198,17070,3271,26805,7535]",
        b"[14003,27681,17750,13614,12198,17070,24691,2990]",
    ]


def test_what_a_server_returned_is_in_the_next_prompt() -> None:
    session = plan_of(TWO).session(0)
    first = prompt(session, 0)
    session.output(0, list(range(20)))

    assert prompt(session, 1)[:120] == first + list(range(20))


def test_output_that_is_too_long_is_cut_and_output_that_is_too_short_is_filled_up() -> None:
    long, short, drawn = (plan_of(TWO).session(0) for _ in range(3))
    long.output(0, list(range(50)))
    short.output(0, [7, 8])

    assert prompt(long, 1)[100:120] == list(range(20))
    assert prompt(long, 1)[120:] == prompt(drawn, 1)[120:]
    assert prompt(short, 1)[100:120] == [7, 8, *prompt(drawn, 1)[102:120]]


def test_output_without_ids_is_drawn() -> None:
    told, untold = plan_of(TWO).session(0), plan_of(TWO).session(0)
    told.output(0, None)

    assert told.prompt(1) == untold.prompt(1)


def test_a_prompt_takes_what_has_been_delivered_and_is_not_changed_by_what_follows() -> None:
    early = Prefix(0, 105, "ids")
    trace = trace_of(
        make_call(0, osl=20), make_call(1, isl=150, prefix=early), make_call(2, isl=150, prefix=Prefix(0, 120, "ids"))
    )
    session = plan_of(trace).session(0)
    first = prompt(session, 0)
    session.output(0, [1, 2, 3, 4, 5])
    sent = prompt(session, 1)
    session.output(0, list(range(1, 21)))

    assert sent[:105] == [*first, 1, 2, 3, 4, 5]
    assert prompt(session, 1) == sent
    assert prompt(session, 2)[:120] == first + list(range(1, 21))


def test_what_a_prompt_took_before_it_was_delivered_stays() -> None:
    session = plan_of(TWO).session(0)
    sent = prompt(session, 1)
    session.output(0, list(range(20)))

    assert prompt(session, 1) == sent


def test_a_prompt_does_not_go_on_like_the_output_it_leaves() -> None:
    trace = trace_of(make_call(0, isl=100, osl=20), make_call(1, isl=150, prefix=Prefix(0, 100, "ids")))
    usual = prompt(plan_of(trace).session(0), 1)
    session = plan_of(trace).session(0)
    session.prompt(0)
    session.output(0, usual[100:120])

    assert prompt(session, 1)[100] != usual[100]


def test_a_prompt_does_not_go_on_like_the_output_of_a_repeated_one() -> None:
    fork = Prefix(0, 100, "ids")
    trace = trace_of(
        make_call(0, isl=100, osl=0), make_call(1, isl=100, prefix=fork), make_call(2, isl=150, prefix=fork)
    )
    usual = prompt(plan_of(trace).session(0), 2)
    session = plan_of(trace).session(0)
    session.prompt(1)
    session.output(1, usual[100:120])

    assert prompt(session, 2)[100] != usual[100]


def test_a_server_that_begins_an_output_like_a_prompt_it_was_sent_is_counted() -> None:
    trace = trace_of(make_call(0, isl=100, osl=20), make_call(1, isl=150, prefix=Prefix(0, 100, "ids")))
    plan = plan_of(trace)
    session = plan.session(0)
    session.prompt(0)
    session.output(0, prompt(session, 1)[100:120])
    session.close()

    assert plan.unseparated == 1


def test_repeated_prompts_with_the_same_answer_count_once_it_is_in_a_prompt() -> None:
    trace = trace_of(
        make_call(0, isl=100, osl=20),
        make_call(1, isl=100, osl=20, prefix=Prefix(0, 100, "ids")),
        make_call(2, isl=150, prefix=Prefix(1, 120, "ids")),
    )
    counts = []
    for calls in (2, 3):
        plan = plan_of(trace)
        session = plan.session(0)
        for call in range(calls):
            session.prompt(call)
            session.output(call, [5] * 20)
        session.close()
        counts.append(plan.unseparated)

    assert counts == [0, 1]


def test_a_vocabulary_too_small_for_a_run_is_reported_before_and_after() -> None:
    plan = plan_of(*[trace_of(make_call(0)), trace_of(make_call(0))], sessions=5, vocabulary=Vocabulary(0, 4))
    for number in range(5):
        session = plan.session(number)
        session.prompt(0)
        session.close()

    assert plan.crowded == 5
    assert plan.unseparated == 1


def test_system_prefixes_are_the_same_in_all_sessions_and_groups_in_those_of_a_copy() -> None:
    trace = trace_of(
        make_call(0, isl=80, prefix=Prefix("s0", 40, "ids")),
        make_call(1, isl=80, prefix=Prefix("s1", 60, "ids")),
        shared_prefixes=[S0, GROUP],
    )
    plan = plan_of(trace, trace, sessions=4)
    sessions = [plan.session(number) for number in range(4)]

    system = [prompt(session, 0) for session in sessions]
    group = [prompt(session, 1) for session in sessions]

    assert all(ids[:40] == system[0][:40] and ids[:40] == system[0][:40] for ids in system + group)
    assert len({ids[40] for ids in system}) == 4
    assert group[0][:60] == group[1][:60]
    assert group[2][:60] == group[3][:60]
    assert group[0][40] != group[2][40]
    assert group[0][41:60] != group[2][41:60]


def test_a_system_prefix_is_another_one_for_the_calls_of_another_domain() -> None:
    leaves = Prefix("s0", 40, "ids")
    calls = [make_call(n, isl=80, prefix=leaves, domain=domain) for n, domain in enumerate((0, 1, 1))]
    session = plan_of(trace_of(*calls, shared_prefixes=[S0])).session(0)
    alone = plan_of(trace_of(calls[0], shared_prefixes=[S0])).session(0)

    first, second, third = (prompt(session, n) for n in range(3))

    assert first[1:40] == prompt(alone, 0)[1:40]
    assert sum(a == b for a, b in zip(first[:40], second[:40], strict=True)) <= 2
    assert second[:40] == third[:40]


def test_the_prompt_of_a_shared_prefix_is_what_its_calls_begin_with() -> None:
    longer = SharedPrefix("s1", "system", 60, SharedPrefixLink("s0", 30))
    calls = [
        make_call(0, isl=80, prefix=Prefix("s0", 40, "ids")),
        make_call(1, isl=80, prefix=Prefix("s1", 60, "ids"), domain=1),
    ]
    plan = plan_of(trace_of(*calls, shared_prefixes=[S0, longer]))
    session = plan.session(0)

    first, begins, second = plan.shared_prompts()

    assert [json.loads(first.text), json.loads(second.text)] == [prompt(session, 0)[:40], prompt(session, 1)[:60]]
    assert json.loads(begins.text)[:30] == prompt(session, 1)[:30]
    assert [one.tokens for one in (first, begins, second)] == [40, 40, 60]
    assert [(one.name.id, one.name.domain) for one in (first, begins, second)] == [("s0", 0), ("s0", 1), ("s1", 1)]


def test_another_seed_and_another_salt_draw_other_tokens() -> None:
    trace = make_trace(turns=1, isl=100, system=40)
    prompts = [prompt(plan_of(trace, seed=seed, salt=salt).session(0), 0) for seed, salt in product((1, 2), "ab")]

    for one, other in ((0, 1), (0, 2), (1, 2), (0, 3)):
        alike = sum(a == b for a, b in zip(prompts[one], prompts[other], strict=True))
        assert alike <= 3


def test_sessions_beyond_those_planned_are_refused() -> None:
    plan = plan_of(TWO, sessions=2)

    for number in (-1, 2):
        with pytest.raises(IndexError, match=f"session {number} of 2"):
            plan.session(number)


def test_a_run_without_traces_is_refused() -> None:
    with pytest.raises(UnusableInput, match="expected at least one trace to replay, found none"):
        plan_of()


def test_prompts_can_still_be_made_after_the_session_was_closed() -> None:
    trace = trace_of(*TWO.events, make_call(2, isl=150, prefix=Prefix(0, 105, "ids")))
    session = plan_of(trace).session(0)
    session.prompt(0)
    session.output(0, list(range(20)))
    sent = [session.prompt(call) for call in range(3)]
    session.close()
    session.output(0, [9] * 20)

    assert [session.prompt(call) for call in (2, 1, 0)] == sent[::-1]


def test_sessions_leave_no_text_behind_in_what_they_share() -> None:
    trace = trace_of(make_call(0, isl=80, prefix=Prefix("s0", 40, "ids")), shared_prefixes=[S0])
    plan = plan_of(trace)
    plan.session(0).prompt(0)

    (shared,) = plan._kept
    assert shared.text is not None
    assert shared.text.end == 40


def test_closing_twice_counts_once() -> None:
    trace = trace_of(make_call(0, isl=100, osl=20), make_call(1, isl=150, prefix=Prefix(0, 100, "ids")))
    plan = plan_of(trace)
    session = plan.session(0)
    session.prompt(0)
    session.output(0, prompt(session, 1)[100:120])
    session.close()
    session.prompt(1)
    session.close()

    assert plan.unseparated == 1


def test_an_output_that_begins_like_a_prompt_of_another_session_is_counted() -> None:
    leaves = Prefix("s0", 40, "ids")
    repeating = trace_of(make_call(0, isl=40, prefix=leaves), shared_prefixes=[S0])
    leaving = trace_of(make_call(0, isl=80, prefix=leaves), shared_prefixes=[S0])
    plan = plan_of(repeating, leaving, sessions=2)
    one, other = plan.session(0), plan.session(1)
    one.prompt(0)
    one.output(0, prompt(other, 0)[40:])
    one.close()
    other.close()

    assert plan.crowded == 0
    assert plan.unseparated == 1


def test_the_text_of_a_group_is_freed_with_the_sessions_of_its_copy() -> None:
    trace = trace_of(make_call(0, isl=80, prefix=Prefix("s1", 60, "ids")), shared_prefixes=[S0, GROUP])
    plan = plan_of(trace, sessions=2)
    session = plan.session(0)
    session.prompt(0)
    before = set(plan._shared)
    session.close()
    del session

    assert before == {SharedName(CAMPAIGN, "s0", None), SharedName(CAMPAIGN, "s1", 0)}
    assert set(plan._shared) == {SharedName(CAMPAIGN, "s0", None)}


def test_a_group_that_is_made_again_for_a_later_session_counts_once() -> None:
    group, others = SharedPrefix("s1", "group", 60), [SharedPrefix(f"s{n}", "system", 40) for n in (2, 3, 4)]
    trace = trace_of(make_call(0, isl=61, prefix=Prefix("s1", 60, "ids")), shared_prefixes=[group, *others])
    plan = plan_of(trace, trace, sessions=2, vocabulary=Vocabulary(0, 3))
    for number in range(2):
        session = plan.session(number)
        session.prompt(0)
        session.close()
        del session

    assert plan.crowded > 0
    assert plan.unseparated == 0


@given(st.data(), corpora(), st.sampled_from([Vocabulary(0, 2), VOCABULARY]), st.integers(1, 4))
def test_what_is_freed_is_made_again_as_it_was(
    data: st.DataObject, traces: list[Trace], vocabulary: Vocabulary, sessions: int
) -> None:
    """Outputs come in two parts, of which the first is in some prompts before the second one is known."""
    keeping, freeing = (
        plan_of(*traces, sessions=sessions, vocabulary=vocabulary, most_kept_tokens=most) for most in (10**9, -1)
    )
    for number in range(sessions):
        one, other = keeping.session(number), freeing.session(number)
        calls = {call.call: call for call in traces[number % len(traces)].calls()}
        answers = {}
        for call in data.draw(st.permutations(list(calls))):
            assert one.prompt(call) == other.prompt(call)
            answers[call] = data.draw(st.lists(st.integers(0, 3), max_size=calls[call].completion_tokens + 1))
            one.output(call, answers[call][:1])
            other.output(call, answers[call][:1])
            other.make_room()
        for call in calls:
            one.output(call, answers[call])
            other.output(call, answers[call])
            assert one.prompt(call) == other.prompt(call)
            other.make_room()
        for call in calls:
            told, again = one.sent(call), other.sent(call)
            assert (told.of, told.shared, told.prompt_tokens) == (again.of, again.shared, again.prompt_tokens)
            assert told.tail.tolist() == again.tail.tolist()
        one.close()
        other.close()

    assert (keeping.unseparated, keeping.crowded) == (freeing.unseparated, freeing.crowded)
    assert (keeping.kept_tokens, freeing.kept_tokens) == (0, 0)


def test_a_session_keeps_its_prompts_as_long_as_all_together_are_few() -> None:
    plan = plan_of(make_trace(turns=2, isl=100, system=0), sessions=3, most_kept_tokens=150)
    sessions = [plan.session(number) for number in range(3)]
    for session in sessions:
        session.prompt(0)
        session.make_room()

    assert plan.kept_tokens == 100
    assert [session._streams[0].is_built for session in sessions] == [True, False, False]


def test_what_a_session_held_is_free_when_it_has_ended_and_waits_for_no_collector() -> None:
    again = make_call(1, isl=100, prefix=Prefix(0, 100, "ids"))
    plan = plan_of(trace_of(make_call(0, isl=100, osl=20), again))
    session = plan.session(0)
    for call in range(2):
        session.prompt(call)
        session.output(call, [1, 2, 3])
    gone = weakref.ref(session._streams[1])
    session.close()
    gc.disable()
    try:
        del session
        assert gone() is None
    finally:
        gc.enable()


def test_a_long_chain_of_calls_can_be_asked_from_its_end() -> None:
    trace = make_trace(turns=3000, isl=50, osl=1, new=1)

    assert len(prompt(plan_of(trace).session(0), 2999)) == 50 + 2999 * 2


@given(st.data(), corpora(), st.sampled_from([Vocabulary(0, 2), Vocabulary(3, 9), VOCABULARY]), st.integers(1, 4))
def test_the_same_bytes_in_whatever_order_sessions_and_calls_are_asked_for(
    data: st.DataObject, traces: list[Trace], vocabulary: Vocabulary, sessions: int
) -> None:
    names = [(n, call.call) for n in range(sessions) for call in traces[n % len(traces)].calls()]
    runs = []
    for order in (names, data.draw(st.permutations(names))):
        plan = plan_of(*traces, sessions=sessions, vocabulary=vocabulary)
        numbers = dict.fromkeys(number for number, _ in order)
        asked = {number: plan.session(number) for number in numbers}
        prompts = {}
        for number, call in order:
            prompts[number, call] = asked[number].prompt(call)
            asked[number].output(call, None)
        runs.append(prompts)

    assert runs[0] == runs[1]


@given(corpora(), st.integers(1, 4), st.integers(0, 5))
def test_sessions_that_follow_change_no_byte(traces: list[Trace], sessions: int, more: int) -> None:
    plans = [plan_of(*traces, sessions=sessions), plan_of(*traces, sessions=sessions + more)]

    for number in range(sessions):
        one, other = (plan.session(number) for plan in plans)
        for call in traces[number % len(traces)].calls():
            assert one.prompt(call.call) == other.prompt(call.call)


def test_a_server_that_returns_the_drawn_ids_changes_no_byte() -> None:
    trace = trace_of(
        make_call(0, osl=20),
        make_call(1, isl=150, prefix=Prefix(0, 120, "ids")),
        make_call(2, isl=120, prefix=Prefix(0, 110, "ids")),
    )
    silent, forced = plan_of(trace).session(0), plan_of(trace).session(0)
    forced.output(0, silent.ids(1)[100:120].tolist())

    assert [forced.prompt(call) for call in range(3)] == [silent.prompt(call) for call in range(3)]


def test_what_messages_lose_is_counted_over_all_sessions() -> None:
    template = ChatTemplate(head=5, turn=11, back=6, tail=11, common=11)
    loses = trace_of(make_call(0, isl=100, osl=20), make_call(1, isl=120, prefix=Prefix(0, 95, "ids")))
    short = trace_of(make_call(0, isl=10))
    words = Words([" the", " cat", " sat"])
    plan = PromptPlan(
        [loses, short],
        seed=1,
        salt="salt",
        sessions=3,
        vocabulary=words.vocabulary,
        rendering=Messages(words, template),
    )

    assert (plan.lost_tokens, plan.too_short) == (12, 1)
    assert (plan_of(loses).lost_tokens, plan_of(short).too_short) == (0, 0)
