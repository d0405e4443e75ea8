from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall
from rotoscope.replayer.simulator.output import Limits, Output, plan_output
from rotoscope.replayer.simulator.tokenizer import END, THINK, THINK_END, control_id, decode, encode

REQUEST = ModelRequest(encode("What now?"))
CALL = ToolCall("list_files", '{"path": "."}')
TEXTS = st.text("ab .é日", max_size=15)
ANSWERS = st.builds(
    Answer,
    text=TEXTS,
    reasoning=st.just("") | TEXTS,
    tool_calls=st.lists(st.builds(ToolCall, st.just("ls"), TEXTS), max_size=2).map(tuple),
)


def plan(answer: Answer, max_tokens: int = 1000, **limits: object) -> Output:
    return plan_output(answer, REQUEST, Limits(max_tokens, **limits))  # type: ignore[arg-type]


@given(ANSWERS)
def test_channels_hold_what_was_said(answer: Answer) -> None:
    output = plan(answer)

    assert output.text("text") == answer.text
    assert output.text("reasoning") == answer.reasoning
    assert output.tools == len(answer.tool_calls)
    for rank, call in enumerate(answer.tool_calls):
        assert output.text("tool_name", tool=rank) == call.name
        assert output.text("tool_arguments", tool=rank) == call.arguments


@given(ANSWERS)
def test_the_end_of_turn_is_the_last_token_and_counts(answer: Answer) -> None:
    output = plan(answer)

    assert output.ids[-1] == control_id(END)
    assert output.finish_reason == ("tool_calls" if answer.tool_calls else "stop")


@given(ANSWERS, st.integers(1, 60))
def test_max_tokens_cuts(answer: Answer, most: int) -> None:
    whole, cut = plan(answer), plan(answer, most)

    assert cut.ids.tolist() == whole.ids.tolist()[:most]
    assert cut.finish_reason == (whole.finish_reason if len(whole.pieces) <= most else "length")


@given(ANSWERS, st.integers(1, 60), st.integers(0, 60))
def test_ignoring_the_end_of_turn_gives_max_tokens_exactly(answer: Answer, most: int, least: int) -> None:
    output = plan(answer, most, ignore_eos=True, min_tokens=min(least, most))

    assert len(output.pieces) == most
    assert output.finish_reason == "length"
    assert output.ending == "length"


@given(ANSWERS, st.integers(0, 60))
def test_min_tokens_come_before_the_end_of_turn(answer: Answer, least: int) -> None:
    body, output = len(plan(answer).pieces) - 1, plan(answer, min_tokens=least)

    assert len(output.pieces) == max(body, least) + 1
    assert output.ids[-1] == control_id(END)


def test_min_tokens_equal_to_max_tokens_give_that_many() -> None:
    output = plan(Answer(text="no"), 20, min_tokens=20)

    assert len(output.pieces) == 20
    assert output.finish_reason == "length"


def test_reasoning_tokens_are_all_that_history_drops() -> None:
    output = plan(Answer(text="so", reasoning="think hard"))

    assert output.reasoning_tokens == len(encode(f"{THINK}think hard{THINK_END}"))
    assert plan(Answer(text="so")).reasoning_tokens == 0
    assert plan(Answer(text="so", reasoning="think hard"), 2).reasoning_tokens == 2


def test_a_character_cut_into_bytes_appears_with_its_last_one() -> None:
    texts = [piece.text for piece in plan(Answer(text="日")).pieces if piece.channel == "text"]

    assert texts == ["", "", "日"]


def test_a_character_cut_by_the_model_itself_is_replaced() -> None:
    broken = tuple(encode("日").tolist()[:2])

    assert plan(Answer(token_ids=broken)).text("text") == "\ufffd"


def test_token_ids_are_said_as_they_are() -> None:
    ids = tuple(encode(" abc def").tolist())

    assert tuple(plan(Answer(token_ids=ids)).ids.tolist()) == (*ids, control_id(END))


@pytest.mark.parametrize(
    ("stop", "text"), [(("Obs",), "I act. "), (("zzz", "act"), "I "), (("I",), ""), (("nowhere",), None)]
)
def test_output_ends_behind_the_first_stop_string_and_leaves_it_out(stop: tuple[str, ...], text: str | None) -> None:
    said = "I act. Observation: none"
    output = plan(Answer(text=said), stop=stop)

    assert output.text("text") == (said if text is None else text)
    assert output.finish_reason == "stop"
    kept = output.ids.tolist()
    assert kept == plan(Answer(text=said)).ids.tolist()[: len(kept)]
    if text is not None:
        spelled = decode(kept)
        assert any(word in spelled for word in stop)
        assert not any(word in decode(kept[:-1]) for word in stop)


def test_nothing_follows_a_stop_string_not_even_tools() -> None:
    output = plan(Answer(text="a STOP b", tool_calls=(CALL,)), stop=("STOP",))

    assert output.text("text") == "a "
    assert output.tools == 0


def test_a_tool_call_that_was_cut_before_its_name_was_complete_is_none() -> None:
    whole = plan(Answer(tool_calls=(CALL,)))
    named = next(at for at, piece in enumerate(whole.pieces) if piece.channel == "tool_start")

    assert plan(Answer(tool_calls=(CALL,)), named).tools == 0
    assert plan(Answer(tool_calls=(CALL,)), named + 1).tools == 1


def test_a_reason_of_its_own_is_kept_unless_the_answer_is_cut() -> None:
    answer = Answer(text="I will not say more", finish_reason="content_filter")

    assert plan(answer).finish_reason == "content_filter"
    assert plan(answer, 2).finish_reason == "length"
