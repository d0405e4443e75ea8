from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from answer_dialects import (
    CACHED_TOKENS,
    CHAT,
    COMPLETIONS,
    COMPLETIONS_WITHOUT_IDS,
    DIALECTS,
    MESSAGES,
    PROMPT_TOKENS,
    RESPONSES,
    Dialect,
    Payload,
    framed,
    text_of,
    wire,
)
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.backends.answer import Answer
from rotoscope.replayer.backends.apis import APIS
from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.backends.grammar import AnswerFailed
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind

every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)


def answer_of(exchange: Exchange, dialect: Dialect, engine: str = "vllm") -> Answer:
    return Answer(exchange, APIS[dialect.api].reading(ENGINES[engine]))


def read(dialect: Dialect, *batches: bytes, engine: str = "vllm", **fields: Any) -> Exchange:
    """Read an answer whose batches arrive at 0.0, 1.0, ..."""
    exchange = Exchange(prompt=b"[]", output_tokens=100, **fields)
    answer = answer_of(exchange, dialect, engine)
    for number, batch in enumerate(batches):
        answer.take(batch, float(number))
    if not answer.is_whole:
        answer.finish(float(len(batches)))
    answer.keep_what_came()
    return exchange


def failure_of(dialect: Dialect, *batches: bytes, **fields: Any) -> Failure:
    with pytest.raises(AnswerFailed) as failed:
        read(dialect, *batches, **fields)
    return failed.value.failure


def assert_brought(exchange: Exchange, dialect: Dialect, count: int) -> None:
    numbers = list(range(1, count + 1))
    assert exchange.output_ids == (numbers if dialect.has_ids else [])
    is_text = APIS[dialect.api].prompts == "messages"
    assert "".join(exchange.output_text) == (text_of(numbers) if is_text else "")


@every_dialect
@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_an_answer_gives_tokens_counts_and_times(dialect: Dialect, compact: bool, newline: bytes) -> None:
    batches = [framed(payload, compact=compact, newline=newline) for payload in dialect.answer(20)]
    first, last = len(dialect.starts), len(dialect.starts) + 19

    exchange = read(dialect, *batches)

    assert_brought(exchange, dialect, 20)
    assert (exchange.prompt_tokens, exchange.cached_tokens) == (PROMPT_TOKENS, CACHED_TOKENS)
    assert exchange.completion_tokens == exchange.token_events == 20
    assert (exchange.first_token_s, exchange.last_token_s) == (first, last)
    assert exchange.ended_s == len(batches) - 1


@given(st.data())
def test_what_arrives_is_read_alike_however_it_is_cut(data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(list(DIALECTS.values())))
    form: dict[str, Any] = {
        "compact": data.draw(st.booleans()),
        "newline": data.draw(st.sampled_from([b"\n", b"\r\n"])),
    }
    events: list[bytes] = []
    total = 0
    for count in data.draw(st.lists(st.integers(1, 3), max_size=12)):
        total += count
        events.append(framed(dialect.tokens(range(total - count + 1, total + 1), total), **form))
        events += data.draw(st.sampled_from([[], [b": a comment" + 2 * form["newline"]], [form["newline"]]]))
    whole = (
        wire(dialect.starts, **form) + b"".join(events) + wire([dialect.finishes(total), *dialect.ends(total)], **form)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    cut, parsed = read(dialect, *pieces), read(dialect, whole, on_delivery=lambda tokens: None)

    for exchange in (cut, parsed):
        assert_brought(exchange, dialect, total)
        assert exchange.completion_tokens == total
        assert (exchange.prompt_tokens, exchange.cached_tokens) == (PROMPT_TOKENS, CACHED_TOKENS)
    assert cut.token_events == parsed.token_events
    assert cut.first_event_tokens == parsed.first_event_tokens


@every_dialect
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_empty_lines_between_events_and_pieces_of_nothing_change_nothing(dialect: Dialect, newline: bytes) -> None:
    events = [framed(payload, newline=newline) + newline for payload in dialect.answer(20)]
    whole = b"".join(events)

    assert_brought(read(dialect, *events), dialect, 20)
    assert_brought(read(dialect, whole), dialect, 20)
    for cut in range(len(events[0]), len(events[0]) + len(events[1]) + 1):
        assert_brought(read(dialect, whole[:cut], b"", whole[cut:]), dialect, 20)


@every_dialect
def test_tokens_are_told_as_they_arrive(dialect: Dialect) -> None:
    told: list[int] = []

    read(dialect, *(framed(payload) for payload in dialect.answer(5)), on_delivery=told.append)

    assert told == [1, 2, 3, 4, 5]


@every_dialect
def test_an_error_among_the_events_is_named_by_the_server(dialect: Dialect) -> None:
    events = wire([*dialect.starts, *dialect.single_tokens(range(1, 9)), dialect.error])
    exchange = Exchange(prompt=b"[]", output_tokens=100)

    with pytest.raises(AnswerFailed) as failed:
        answer_of(exchange, dialect).take(events, 0.0)

    failure = failed.value.failure
    assert (failure.kind, failure.http_status) == (FailureKind.ERROR_IN_STREAM, 200)
    assert "some_error" in (failure.error_type, failure.error_code)
    assert failed.value.message == "out of blocks"


@every_dialect
def test_an_error_between_tokens_is_found(dialect: Dialect) -> None:
    before, after = dialect.single_tokens(range(1, 9)), dialect.single_tokens(range(9, 12))

    assert failure_of(dialect, wire([*before, dialect.error, *after])).kind is FailureKind.ERROR_IN_STREAM


@pytest.mark.parametrize("dialect", [d for d in DIALECTS.values() if d.given_up], ids=lambda dialect: dialect.api)
def test_a_request_that_the_server_stopped_is_an_error_in_the_stream(dialect: Dialect) -> None:
    assert dialect.given_up is not None

    failure = failure_of(dialect, wire([*dialect.single_tokens([1, 2]), dialect.given_up, *dialect.ends(2)]))

    assert failure.kind is FailureKind.ERROR_IN_STREAM


@every_dialect
@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_a_stream_that_ends_among_its_tokens_is_cut_and_keeps_them(dialect: Dialect, tokens: int) -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=100)
    answer = answer_of(exchange, dialect)
    answer.take(wire([*dialect.starts, *dialect.single_tokens(range(1, tokens + 1))]), 0.0)
    answer.take(b'data: {"choices":[', 1.0)

    with pytest.raises(AnswerFailed) as failed:
        answer.finish(2.0)

    assert failed.value.failure == Failure(FailureKind.CUT_STREAM, 200)
    answer.keep_what_came()
    assert_brought(exchange, dialect, tokens)


@every_dialect
def test_a_finish_reason_does_for_the_last_event_where_there_is_one(dialect: Dialect) -> None:
    events = wire([*dialect.starts, *dialect.single_tokens([1, 2, 3]), dialect.finishes(3)])

    if dialect.can_end_without_last:
        assert_brought(read(dialect, events), dialect, 3)
    else:
        assert failure_of(dialect, events) == Failure(FailureKind.CUT_STREAM, 200)


@every_dialect
def test_the_last_event_needs_no_blank_line(dialect: Dialect) -> None:
    assert_brought(read(dialect, wire(dialect.answer(3))[:-2]), dialect, 3)


@every_dialect
@pytest.mark.parametrize("damaged", [b"data: nothing\n\n", b"data: [1]\n\n", b"data: {\n\n"])
def test_an_event_that_is_no_object_is_malformed(dialect: Dialect, damaged: bytes) -> None:
    events = wire(dialect.single_tokens(range(1, 5))) + damaged + wire(dialect.single_tokens(range(5, 9)))
    exchange = Exchange(prompt=b"[]", output_tokens=100)
    answer = answer_of(exchange, dialect)

    with pytest.raises(AnswerFailed) as failed:
        answer.take(events + damaged, 0.0)

    assert failed.value.failure == Failure(FailureKind.MALFORMED, 200)


@every_dialect
def test_an_answer_without_an_end_is_malformed(dialect: Dialect) -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=1)
    answer = answer_of(exchange, dialect)

    def take_all() -> None:
        for payload in dialect.single_tokens(range(1, 100)):
            answer.take(framed(payload), 0.0)

    with pytest.raises(AnswerFailed) as failed:
        take_all()

    assert failed.value.failure == Failure(FailureKind.MALFORMED, 200)


@every_dialect
def test_an_answer_without_usage_is_read_all_the_same(dialect: Dialect) -> None:
    events = [*dialect.starts, *dialect.single_tokens([1, 2, 3]), *dialect.ends(None)]

    exchange = read(dialect, wire(events))

    assert_brought(exchange, dialect, 3)
    assert exchange.delivered_tokens == 3


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        {},
        {"prompt_tokens": "7"},
        {"prompt_tokens": -7, "prompt_tokens_details": None},
        {"prompt_tokens": True},
    ],
)
@pytest.mark.parametrize("dialect", [COMPLETIONS, CHAT], ids=lambda dialect: dialect.api)
def test_a_count_that_is_none_is_unknown(dialect: Dialect, usage: Any) -> None:
    exchange = read(dialect, wire([*dialect.single_tokens([1]), {"choices": [], "usage": usage}, "[DONE]"]))

    assert (exchange.prompt_tokens, exchange.cached_tokens) == (None, None)


def test_deepseeks_name_for_cached_tokens_is_read() -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 1, "prompt_cache_hit_tokens": 16, "prompt_cache_miss_tokens": 24}

    exchange = read(CHAT, wire([*CHAT.single_tokens([1]), {"choices": [], "usage": usage}, "[DONE]"]))

    assert exchange.cached_tokens == 16


@pytest.mark.parametrize("dialect", [COMPLETIONS, COMPLETIONS_WITHOUT_IDS, CHAT])
def test_usage_that_comes_early_counts_until_more_tokens_come(dialect: Dialect) -> None:
    early = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}

    without = read(dialect, wire([early, *dialect.single_tokens([1, 2, 3]), "[DONE]"]))
    with_last = read(dialect, wire([early, *dialect.answer(3)]))

    assert (without.prompt_tokens, without.completion_tokens, without.delivered_tokens) == (7, None, 3)
    assert (with_last.prompt_tokens, with_last.completion_tokens) == (PROMPT_TOKENS, 3)


def test_usage_in_every_event_counts_as_far_as_it_goes() -> None:
    running = [
        {"choices": [{"delta": {"content": "x"}, "finish_reason": None}], "usage": {"completion_tokens": number}}
        for number in (2, 4, 6)
    ]
    told: list[int] = []

    read(CHAT, wire([*running, *CHAT.ends(6)]), on_delivery=told.append)

    assert told == [2, 4, 6]
    assert read(CHAT, wire([*running, *CHAT.ends(6)])).completion_tokens == 6


@pytest.mark.parametrize("ids", [["7"], [-1], [2**32], [1.5], [None], [True]])
@pytest.mark.parametrize("tokens", [0, 3])
def test_an_id_that_is_none_is_found_when_the_answer_ends(ids: list[Any], tokens: int) -> None:
    bad = {"choices": [{"text": "x", "token_ids": ids, "finish_reason": None}]}

    failure = failure_of(COMPLETIONS, wire([*COMPLETIONS.single_tokens(range(1, tokens + 1)), bad, "[DONE]"]))

    assert failure.kind is FailureKind.MALFORMED


def test_events_with_ids_are_not_parsed_after_the_first() -> None:
    broken_but_for_its_ids = b'data: {"choices":[{"token_ids":[2],"finish_reason":null}\n\n'

    exchange = read(
        COMPLETIONS, wire(COMPLETIONS.single_tokens([1])) + broken_but_for_its_ids + wire(COMPLETIONS.ends(2))
    )

    assert exchange.output_ids == [1, 2]


@every_dialect
def test_a_large_answer_is_read_whole(dialect: Dialect) -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=3000)
    answer = answer_of(exchange, dialect)
    for payload in dialect.answer(3000):
        answer.take(framed(payload), 0.0)

    assert answer.is_whole
    assert_brought(exchange, dialect, 3000)


Deltas = Callable[[str], Payload]

REASONING: dict[str, tuple[Dialect, Deltas]] = {
    "reasoning_content": (CHAT, lambda text: chat_delta(reasoning_content=text)),
    "reasoning": (CHAT, lambda text: chat_delta(content=None, reasoning=text)),
    "reasoning_text": (RESPONSES, lambda text: {"type": "response.reasoning_text.delta", "delta": text}),
    "reasoning_summary": (RESPONSES, lambda text: {"type": "response.reasoning_summary_text.delta", "delta": text}),
    "thinking": (MESSAGES, lambda text: message_delta("thinking_delta", thinking=text)),
}
OTHER_TOKENS: dict[str, tuple[Dialect, Deltas]] = {
    "tool_calls": (CHAT, lambda text: chat_delta(tool_calls=[{"index": 0, "function": {"arguments": text}}])),
    "arguments": (RESPONSES, lambda text: {"type": "response.function_call_arguments.delta", "delta": text}),
    "partial_json": (MESSAGES, lambda text: message_delta("input_json_delta", partial_json=text)),
}


def chat_delta(**delta: Any) -> Payload:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def message_delta(kind: str, **delta: Any) -> Payload:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind} | delta}


@pytest.mark.parametrize(("dialect", "delta"), REASONING.values(), ids=REASONING)
def test_reasoning_counts_and_is_kept_apart(dialect: Dialect, delta: Deltas) -> None:
    thoughts = [delta(f"t{number} ") for number in range(6)]

    exchange = read(dialect, wire([*dialect.starts, *thoughts, *dialect.single_tokens(range(1, 7)), *dialect.ends(12)]))

    assert "".join(exchange.reasoning_text) == "t0 t1 t2 t3 t4 t5 "
    assert "".join(exchange.output_text) == text_of(range(1, 7))
    assert exchange.token_events == 12


@pytest.mark.parametrize(("dialect", "delta"), OTHER_TOKENS.values(), ids=OTHER_TOKENS)
def test_arguments_of_tools_count_and_are_not_sent_back(dialect: Dialect, delta: Deltas) -> None:
    events = [*dialect.single_tokens([1, 2, 3]), *(delta('{"a"') for _ in range(4)), *dialect.single_tokens([4, 5])]

    exchange = read(dialect, wire([*dialect.starts, *events, *dialect.ends(9)]))

    assert "".join(exchange.output_text) == text_of([1, 2, 3, 4, 5])
    assert exchange.reasoning_text == []
    assert exchange.token_events == 9


OUTPUT: dict[str, list[tuple[Dialect, Deltas]]] = {
    "chat": [(CHAT, lambda text: chat_delta(content=text)), (CHAT, lambda text: chat_delta(refusal=text))],
    "responses": [
        (RESPONSES, lambda text: {"type": "response.output_text.delta", "delta": text}),
        (RESPONSES, lambda text: {"type": "response.refusal.delta", "delta": text}),
    ],
    "messages": [(MESSAGES, lambda text: message_delta("text_delta", text=text))],
}
FIRST_OUTPUT = [
    (dialect, delta, output)
    for dialect, delta in REASONING.values()
    for _, output in [*OUTPUT[dialect.api], *(some for some in OTHER_TOKENS.values() if some[0] is dialect)]
]


@pytest.mark.parametrize(("dialect", "delta", "output"), FIRST_OUTPUT)
@pytest.mark.parametrize("compact", [True, False])
def test_the_first_output_comes_behind_the_reasoning(
    dialect: Dialect, delta: Deltas, output: Deltas, compact: bool
) -> None:
    events = [*dialect.starts, *(delta('"content": "x') for _ in range(30)), *(output("w") for _ in range(30))]
    batches = [framed(event, compact=compact) for event in [*events, *dialect.ends(60)]]
    first = len(dialect.starts)

    exchange = read(dialect, *batches)

    assert (exchange.first_token_s, exchange.first_output_s) == (first, first + 30)
    assert exchange.token_events == 60


@pytest.mark.parametrize(("dialect", "delta", "output"), FIRST_OUTPUT)
def test_the_first_output_comes_with_the_end_of_its_event(dialect: Dialect, delta: Deltas, output: Deltas) -> None:
    before = [framed(event) for event in [*dialect.starts, *(delta("w") for _ in range(3))]]
    event = framed(output("w"))
    behind = [framed(event) for event in [delta("w"), *dialect.ends(5)]]

    for cut in range(1, len(event)):
        exchange = read(dialect, *before, event[:cut], event[cut:], *behind)

        assert exchange.first_output_s == len(before) + 1


@given(st.data())
def test_the_first_output_has_its_time_however_the_answer_is_cut(data: st.DataObject) -> None:
    dialect, delta, output = data.draw(st.sampled_from(FIRST_OUTPUT))
    kinds = data.draw(st.lists(st.sampled_from([delta, output]), min_size=1, max_size=12))
    compact = data.draw(st.booleans())
    whole = wire([*dialect.starts, *(kind("w") for kind in kinds), *dialect.ends(len(kinds))], compact=compact)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    skimmed, parsed = read(dialect, *pieces), read(dialect, *pieces, on_delivery=lambda tokens: None)

    assert skimmed.first_output_s == parsed.first_output_s
    assert (parsed.first_output_s is None) == (output not in kinds)
    assert skimmed.reasoning_text == parsed.reasoning_text


@every_dialect
def test_an_answer_of_ids_may_be_reasoning_for_all_that_is_known(dialect: Dialect) -> None:
    exchange = read(dialect, wire(dialect.answer(5)))

    assert (exchange.first_output_s is None) == (APIS[dialect.api].prompts != "messages")


TRAPS = [
    '"finish_reason":null',
    '"text":"x"',
    "data: ",
    '"delta":{"content":"x"}',
    "}]}",
    '\\"',
    "\\",
    "\n\n",
    "\u2028é\t",
]


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES], ids=lambda dialect: dialect.api)
@given(texts=st.lists(st.sampled_from(TRAPS), min_size=1, max_size=6), compact=st.booleans())
def test_text_is_kept_as_it_was_whatever_it_looks_like(dialect: Dialect, texts: list[str], compact: bool) -> None:
    def with_text(text: str) -> Payload:
        event: Payload = json.loads(json.dumps(dialect.tokens([1], 1)).replace(text_of([1]), json.dumps(text)[1:-1]))
        return event

    events = [*dialect.starts, *map(with_text, texts), dialect.finishes(1), *dialect.ends(1)]

    exchange = read(dialect, *(framed(event, compact=compact) for event in events))

    assert exchange.output_text == texts


@pytest.mark.parametrize(
    ("start", "end", "prompt_tokens", "cached_tokens"),
    [
        ({"input_tokens": 104}, {"input_tokens": 8, "cache_read_input_tokens": 96}, 104, 96),
        ({"input_tokens": 81, "cache_creation_input_tokens": 0}, {"input_tokens": 104}, 104, 0),
        ({"input_tokens": 104}, {}, 104, None),
        ({"input_tokens": 0, "cache_read_input_tokens": 0}, {}, None, None),
        ({"input_tokens": 1, "cache_read_input_tokens": 103}, {"input_tokens": 0}, 104, 103),
        ({"input_tokens": 8, "cache_read_input_tokens": 96}, {"cache_read_input_tokens": 96}, 104, 96),
        (
            {"input_tokens": 8, "cache_read_input_tokens": 96},
            {"input_tokens": None, "cache_read_input_tokens": 96, "cache_creation_input_tokens": None},
            104,
            96,
        ),
        ({"input_tokens": 8, "cache_read_input_tokens": 96}, {"input_tokens": 8}, 104, 96),
    ],
)
def test_a_prompt_of_messages_is_counted_in_parts(
    start: dict[str, int], end: dict[str, int | None], prompt_tokens: int | None, cached_tokens: int | None
) -> None:
    events: list[Payload] = [
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end | {"output_tokens": 1}},
        {"type": "message_stop"},
    ]

    exchange = read(MESSAGES, wire(events))

    assert (exchange.prompt_tokens, exchange.cached_tokens) == (prompt_tokens, cached_tokens)


def test_keep_alives_say_nothing_and_have_no_end() -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=1)
    answer = answer_of(exchange, MESSAGES)

    said = [answer.take(framed({"type": kind}), 0.0) for kind in ("ping", "keepalive") for _ in range(200)]

    assert not any(said)
    assert answer.take(framed(MESSAGES.starts[0]), 0.0)


def dynamo_event(text: str, ids: list[int], **choice: Any) -> Payload:
    return {"choices": [{"text": text, "index": 0, **choice}], "usage": None, "nvext": {"completion_token_ids": ids}}


@pytest.mark.parametrize("told", [{}, {"on_delivery": lambda tokens: None}])
def test_dynamo_tells_new_ids_beside_the_choices(told: dict[str, Any]) -> None:
    events = [*(dynamo_event("x", [number]) for number in range(1, 7)), dynamo_event("", [], finish_reason="length")]

    exchange = read(COMPLETIONS, wire([*events, *COMPLETIONS.ends(6)]), engine="dynamo", **told)

    assert exchange.whole_output_ids == [1, 2, 3, 4, 5, 6]
    assert exchange.token_events == 6


def test_an_older_dynamo_tells_all_ids_with_the_last_event() -> None:
    events = [*(dynamo_event("x", []) for _ in range(3)), dynamo_event("", [1, 2, 3], finish_reason="length")]

    exchange = read(COMPLETIONS, wire([*events, *COMPLETIONS.ends(3)]), engine="dynamo")

    assert exchange.whole_output_ids == [1, 2, 3]


@pytest.mark.parametrize("dialect", [COMPLETIONS, COMPLETIONS_WITHOUT_IDS, CHAT], ids=lambda dialect: dialect.api)
def test_a_last_token_may_come_with_the_finish_reason(dialect: Dialect) -> None:
    finish, last = dialect.finishes(4), dialect.tokens([4], 4)
    assert isinstance(finish, dict)
    assert isinstance(last, dict)
    reason = finish["choices"][0]["finish_reason"]
    both: Payload = {"choices": [last["choices"][0] | {"finish_reason": reason}]}

    exchange = read(dialect, wire([*dialect.starts, *dialect.single_tokens([1, 2, 3]), both, *dialect.ends(4)]))

    assert_brought(exchange, dialect, 4)
    assert exchange.token_events == 4


def test_ids_of_llama_server_are_read_from_its_log_probabilities() -> None:
    def event(*ids: int) -> Payload:
        content = [{"id": token, "token": "x", "top_logprobs": [{"id": token}]} for token in ids]
        return {"choices": [{"text": "x", "logprobs": {"content": content}, "finish_reason": None}]}

    exchange = read(COMPLETIONS, wire([event(7), event(8, 9), *COMPLETIONS.ends(3)]), engine="llama.cpp")

    assert exchange.whole_output_ids == [7, 8, 9]


def test_an_event_that_tells_how_the_answer_ends_counts_wherever_it_stands() -> None:
    given_up = {"choices": [{"text": "x", "token_ids": [8], "finish_reason": "abort"}]}

    assert failure_of(COMPLETIONS, wire([*COMPLETIONS.single_tokens([1]), given_up, *COMPLETIONS.single_tokens([2])]))


def in_batches(events: Sequence[bytes], size: int) -> list[bytes]:
    return [b"".join(events[start : start + size]) for start in range(0, len(events), size)]


@every_dialect
@pytest.mark.parametrize("size", [2, 7, 100])
def test_events_that_come_together_are_timed_together(dialect: Dialect, size: int) -> None:
    events = [framed(payload) for payload in dialect.answer(20)]
    last_token = len(dialect.starts) + 19

    exchange = read(dialect, *in_batches(events, size))

    assert exchange.first_token_s == len(dialect.starts) // size
    assert exchange.last_token_s == last_token // size


JUNK = ["null", "true", "0", "-1", "2.5", "1" + "0" * 30, '""', '"x"', "[]", "[null]", "[[]]", "{}", '{"x": null}']


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container within a value with each of its keys."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    found = [(value, key) for key in keys]
    return found + [place for key in keys if isinstance(value[key], dict | list) for place in places(value[key])]


@given(st.data())
def test_values_that_make_no_sense_are_passed_over_or_fail_by_name(data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(list(DIALECTS.values())))
    events: list[Any] = json.loads(json.dumps([*dialect.answer(4), dialect.error, dialect.given_up]))
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(places(events)))
        container[key] = json.loads(data.draw(st.sampled_from(JUNK)))
    sent = b"".join(b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n" for event in events)

    assert_read_or_failed(dialect, sent)


@given(st.data())
def test_bytes_that_are_damaged_are_passed_over_or_fail_by_name(data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(list(DIALECTS.values())))
    sent = bytearray(wire(dialect.answer(6)))
    for _ in range(data.draw(st.integers(1, 4))):
        at, length = data.draw(st.integers(0, len(sent))), data.draw(st.integers(0, 9))
        sent[at : at + length] = data.draw(st.binary(max_size=6))

    assert_read_or_failed(dialect, bytes(sent))


def assert_read_or_failed(dialect: Dialect, sent: bytes) -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=100)
    answer = answer_of(exchange, dialect)
    with suppress(AnswerFailed):
        answer.take(sent, 0.0)
        if not answer.is_whole:
            answer.finish(1.0)
    answer.keep_what_came()
    assert all(type(token) is int for token in exchange.output_ids)
    assert all(type(piece) is str for piece in exchange.output_text + exchange.reasoning_text)
    for count in (exchange.prompt_tokens, exchange.completion_tokens, exchange.cached_tokens):
        assert count is None or count >= 0
