from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.token_streams import CallName, SharedName, StreamName
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.testing import CAMPAIGN, make_call, make_trace, trace_of
from rotoscope.traces import Prefix, SharedPrefix, SharedPrefixLink, Trace

TWO = trace_of(make_call(0, isl=100, osl=20), make_call(1, isl=150, prefix=Prefix(0, 120, "ids")))
"""A call and one that takes its whole output."""


def session_of(trace: Trace) -> SessionPrompts:
    return plan_of(trace).session(0)


def plan_of(*traces: Trace, sessions: int = 1) -> PromptPlan:
    return PromptPlan(traces, seed=1, salt="salt", sessions=sessions, vocabulary=Vocabulary(1000, 33_000))


def test_what_was_sent_names_what_it_begins_like_and_holds_the_rest_and_the_output() -> None:
    session = session_of(TWO)
    for call in range(2):
        session.prompt(call)
        session.output(call, list(range(20)))

    sent = session.sent(1)

    assert (sent.of, sent.shared, sent.prompt_tokens) == (CallName(0, 0), 120, 150)
    assert sent.tail.tolist() == [*session.ids(1)[120:], *range(20)]


def test_what_was_sent_shares_only_those_tokens_of_an_output_that_came() -> None:
    session = session_of(TWO)
    session.prompt(0)
    session.output(0, [1, 2, 3])
    session.prompt(1)

    sent = session.sent(1)

    assert (sent.of, sent.shared) == (CallName(0, 0), 103)
    assert sent.tail.tolist() == session.ids(1)[103:].tolist()


def test_what_was_sent_shares_no_output_whose_ids_are_unknown() -> None:
    session = session_of(TWO)
    for call in range(2):
        session.prompt(call)
        session.output(call, None)

    assert session.sent(0).tail.tolist() == session.ids(0).tolist()
    assert session.sent(1).shared == 100


def test_what_was_sent_shares_an_output_up_to_where_another_one_came() -> None:
    session = session_of(TWO)
    session.prompt(0)
    session.output(0, list(range(10)))
    session.prompt(1)
    session.output(0, [0, 1, 2, *range(500, 520)])

    assert session.sent(1).shared == 103


def test_what_was_received_is_kept_whole() -> None:
    session = session_of(TWO)
    session.prompt(0)
    session.output(0, list(range(50)))

    assert session.sent(0).tail[100:].tolist() == list(range(50))


def test_what_was_sent_names_no_call_that_was_not() -> None:
    trace = trace_of(
        make_call(0, isl=100, prefix=Prefix("s0", 40, "ids")),
        make_call(1, isl=150, prefix=Prefix(0, 80, "ids")),
        make_call(2, isl=150, prefix=Prefix(1, 140, "ids")),
        shared_prefixes=[SharedPrefix("s0", "system", 40)],
    )
    session = session_of(trace)
    session.prompt(2)

    sent = session.sent(2)

    assert (sent.of, sent.shared) == (SharedName(CAMPAIGN, "s0", None), 40)
    assert sent.tail.tolist() == session.ids(2)[40:].tolist()


def test_a_shared_prefix_is_named_after_the_one_it_begins_like() -> None:
    trace = trace_of(
        make_call(0, isl=100, prefix=Prefix("s1", 60, "ids")),
        shared_prefixes=[SharedPrefix("s0", "system", 40), SharedPrefix("s1", "group", 70, SharedPrefixLink("s0", 30))],
    )
    plan = plan_of(trace, sessions=2)
    ids = plan.session(1).ids(0).tolist()

    system, group = (
        plan.shared_prefix(SharedName(CAMPAIGN, "s0", None)),
        plan.shared_prefix(SharedName(CAMPAIGN, "s1", 1)),
    )

    assert (group.of, group.shared, group.prompt_tokens) == (SharedName(CAMPAIGN, "s0", None), 30, 70)
    assert (system.of, system.shared, system.prompt_tokens) == (None, 0, 40)
    assert [*system.tail[:30], *group.tail[:30]] == ids[:60]


def test_what_was_sent_is_known_after_the_session_was_closed() -> None:
    session = session_of(make_trace(turns=3))
    for call in range(3):
        session.prompt(call)
        session.output(call, [call] * 20)
    before = [session.sent(call) for call in range(3)]
    session.close()

    for call in range(3):
        assert session.sent(call).tail.tolist() == before[call].tail.tolist()
        assert session.sent(call).shared == before[call].shared


@settings(max_examples=60)
@given(st.data(), corpora(), st.integers(1, 3))
def test_what_was_sent_adds_up_to_every_prompt_and_answer(
    data: st.DataObject, traces: list[Trace], sessions: int
) -> None:
    plan = plan_of(*traces, sessions=sessions)
    streams: dict[StreamName, list[int]] = {}

    def whole(of: StreamName | None) -> list[int]:
        if of is None:
            return []
        if isinstance(of, SharedName) and of not in streams:
            shared = plan.shared_prefix(of)
            streams[of] = whole(shared.of)[: shared.shared] + shared.tail.tolist()
        return streams[of]

    for number in range(sessions):
        session = plan.session(number)
        answers: dict[int, list[int]] = {}
        for call in traces[number % len(traces)].calls():
            if data.draw(st.integers(0, 3)) == 0:
                continue
            session.prompt(call.call)
            answer = data.draw(st.none() | st.lists(st.integers(0, 3), max_size=5))
            session.output(call.call, answer)
            answers[call.call] = answer or []
        for sent_call, received in answers.items():
            sent = session.sent(sent_call)
            tokens = whole(sent.of)[: sent.shared] + sent.tail.tolist()
            streams[CallName(number, sent_call)] = tokens
            assert tokens == [*session.ids(sent_call), *received]
            assert sent.prompt_tokens == len(tokens) - len(received)
