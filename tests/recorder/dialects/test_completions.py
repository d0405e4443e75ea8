from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from chat_wire import Wire, sse, usage

from rotoscope.recorder import Exchange
from rotoscope.recorder.dialects.completions import TextAnswer, TextOutput, parse_request
from rotoscope.recorder.dialects.request import NotACall
from rotoscope.traces import Call

PATH = "/v1/completions"


class TextWire(Wire):
    """A client of text completions; a token is a word of four letters and a space."""

    def complete(
        self, prompt: Any, output: str, *, tokens: Sequence[int] | None = None, counts: Any = "own", **fields: Any
    ) -> None:
        """Make one call; sizes are those of its words unless they are given."""
        exchange = self.begin(prompt, **fields)
        choice = {"index": 0, "text": output, "finish_reason": "length"} | (
            {"token_ids": list(tokens)} if tokens else {}
        )
        size = len(prompt) if isinstance(prompt, list) else len(prompt) // 5
        told = usage(size, len(tokens or output) // (1 if tokens else 5)) if counts == "own" else counts
        self.end(exchange, [choice], told)

    def begin(self, prompt: Any, **fields: Any) -> Exchange:
        self.now_s += 1
        return self.recorder.request(PATH, orjson.dumps({"model": "m", "prompt": prompt} | fields), at_s=self.now_s)

    def end(self, exchange: Exchange, choices: list[Any], told: Any = None) -> None:
        self.now_s += 1
        exchange.response(200, at_s=self.now_s, content_type="application/json")
        exchange.chunk(orjson.dumps({"choices": choices} | ({"usage": told} if told else {})), at_s=self.now_s)
        exchange.end(at_s=self.now_s)


def words(name: str, count: int) -> str:
    return "".join(f"{name}{i:03} " for i in range(count))


def prefix_of(call: Call) -> tuple[Any, int, str]:
    return call.prefix.of, call.prefix.tokens, call.prefix.source


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"prompt":""}',
        b'{"prompt":[]}',
        b'{"prompt":[-1]}',
        b'{"prompt":[1,"a"]}',
        b'{"prompt":[[]]}',
    ],
)
def test_what_has_no_prompt_is_told_without_its_content(body: bytes) -> None:
    with pytest.raises(NotACall) as refused:
        parse_request(PATH, body)

    assert str(refused.value) in (
        "the body is not JSON",
        "the body has no prompt",
        "the body has no prompt of text or token ids",
    )


def test_a_request_may_hold_several_prompts_with_several_choices() -> None:
    assert parse_request(PATH, b'{"prompt":["a","b"],"n":3}').outputs == 6
    assert [list(ids) for ids in parse_request(PATH, b'{"prompt":[[1,2],[3]]}').ids] == [[1, 2], [3]]
    with pytest.raises(NotACall):
        parse_request(PATH, b'{"prompt":["a","b"],"n":1000}')


def test_text_that_goes_on_behind_an_output_shares_all_of_the_stream() -> None:
    wire = TextWire()
    first, said = words("a", 40), words("o", 9)
    wire.complete(first, said)
    wire.complete(first + said + words("b", 10), words("p", 5))
    wire.complete(first + said + words("b", 10) + words("p", 5), words("q", 5))
    calls = wire.calls()

    assert [prefix_of(call) for call in calls] == [(None, 0, "text"), (0, 49, "usage"), (1, 64, "usage")]
    assert [call.prompt_tokens for call in calls] == [40, 59, 64]


def test_an_output_that_ended_by_itself_has_a_mark_that_is_no_text() -> None:
    wire = TextWire()
    exchange = wire.begin(words("a", 40))
    wire.end(exchange, [{"text": words("o", 9), "finish_reason": "stop"}], usage(40, 10))
    wire.complete(words("a", 40) + words("o", 9) + words("b", 1), "")
    prefix = wire.calls()[1].prefix

    assert (prefix.of, prefix.tokens) == (0, 49)


@pytest.mark.parametrize("tokens", [None, [1, 2, 3, 4, 5, 6, 7, 8, 9]], ids=["text", "ids"])
def test_thinking_that_a_server_counts_is_in_the_text(tokens: list[int] | None) -> None:
    wire = TextWire()
    first, said = ([20, 21], tokens) if tokens else (words("a", 40), words("o", 9))
    wire.complete(first, words("o", 9), tokens=tokens, counts=usage(2 if tokens else 40, 9, reasoning=5))
    wire.complete([*first, *said, 30] if tokens else f"{first}{said}{words('b', 1)}", "")

    assert [(call.prefix.of, call.prefix.tokens) for call in wire.calls()][1] == (0, 11 if tokens else 49)


def test_a_text_that_forks_in_the_middle_is_found_near_there() -> None:
    wire = TextWire()
    wire.complete(words("a", 400), words("o", 9))
    wire.complete(words("a", 300) + words("b", 100), words("p", 9))
    prefix = wire.calls()[1].prefix

    assert prefix.of == 0
    assert prefix.least <= 300 <= prefix.greatest
    assert 270 <= prefix.tokens <= 300


def test_a_prompt_that_ends_inside_an_earlier_one_shares_all_of_itself_or_nearly() -> None:
    wire = TextWire()
    wire.complete(words("a", 400), words("o", 9))
    wire.complete(words("a", 200), words("p", 9))
    prefix = wire.calls()[1].prefix

    assert prefix.least <= 200 <= prefix.greatest
    assert 174 <= prefix.tokens <= 200


def test_prompts_of_token_ids_share_exactly_what_they_share() -> None:
    wire = TextWire()
    ids = list(range(100, 200))
    wire.complete(ids, "x", tokens=[1, 2, 3])
    wire.complete([*ids, 1, 2, 3, 7, 8], "y", tokens=[4])
    wire.complete([*ids[:57], 9], "z", tokens=[4])
    wire.complete([*ids, 1, 2, 3, 7, 8], "y", tokens=[5])
    calls = wire.calls()

    assert [(c.prefix.of, c.prefix.tokens) for c in calls] == [(None, 0), (0, 103), (0, 57), (1, 105)]
    assert all(c.prefix.least == c.prefix.tokens == c.prefix.greatest for c in calls)


def test_without_the_ids_of_an_output_what_lies_in_it_is_left_open() -> None:
    wire = TextWire()
    ids = list(range(100, 200))
    wire.complete(ids, "x", counts=usage(100, 3))
    wire.complete([*ids, 1, 2, 3, 7, 8], "y")
    prefix = wire.calls()[1].prefix

    assert (prefix.of, prefix.tokens, prefix.least) == (0, 100, 100)
    assert prefix.greatest == 103


def test_several_prompts_are_several_calls_of_one_request() -> None:
    wire = TextWire()
    exchange = wire.begin([[1, 2, 3, 4], [1, 2, 9]], n=2)
    wire.end(exchange, [{"index": i, "text": "abcd", "finish_reason": "length"} for i in range(4)], usage(7, 8))
    calls = wire.calls()

    assert [call.request for call in calls] == [0, 0, 0, 0]
    assert [call.prompt_tokens for call in calls] == [4, 4, 3, 3]
    assert [(c.prefix.of, c.prefix.tokens) for c in calls] == [(None, 0), (0, 4), (0, 2), (2, 3)]
    assert sum(call.completion_tokens for call in calls) == 8


def test_prompts_of_ids_that_a_server_begins_with_a_mark_are_as_long_as_it_says() -> None:
    wire = TextWire()
    exchange = wire.begin([[1, 2, 3, 4], [5, 6]])
    wire.end(exchange, [{"index": 0, "text": "x"}, {"index": 1, "text": "y"}], usage(8, 2))
    calls = wire.calls()

    assert [(call.prompt_tokens, call.prefix.source) for call in calls] == [(5, "text"), (3, "text")]


def test_prompts_that_a_server_begins_with_a_mark_may_have_that_in_common() -> None:
    wire = TextWire()
    for token in (1, 2):
        wire.complete([token] * 30, "x", counts=usage(31, 1))

    assert 1 <= wire.calls()[1].prefix.greatest < 31


def test_of_text_ids_and_messages_nobody_knows_how_alike_they_are() -> None:
    wire = TextWire()
    wire.complete(words("a", 40), "")
    wire.complete(list(range(30)), "", counts=usage(31, 1))
    wire.call([{"role": "user", "content": "q"}], {"role": "assistant", "content": "a"}, counts=usage(20, 1))

    assert [call.prefix.greatest for call in wire.calls()] == [0, 31, 20]


def test_prompts_of_both_kinds_are_no_request() -> None:
    with pytest.raises(NotACall, match="of text and of token ids"):
        parse_request(PATH, b'{"prompt":["a",[1]]}')


@pytest.mark.parametrize("counts", ["own", None])
def test_a_prompt_that_is_given_back_is_not_said(counts: Any) -> None:
    wire = TextWire()
    first, said = words("a", 40), words("o", 9)
    exchange = wire.begin(first, echo=True)
    wire.end(exchange, [{"text": first + said, "finish_reason": "length"}], counts and usage(40, 9))
    wire.complete(first + said + words("b", 5), "", counts=counts)
    first_call, second = wire.calls()

    assert first_call.completion_tokens == (9 if counts else len(said) // 4)
    assert (second.prefix.of, second.prefix.tokens) == (0, first_call.stream_tokens)


def test_a_prompt_that_was_to_be_given_back_and_is_not_cuts_nothing() -> None:
    wire = TextWire()
    wire.complete(words("a", 40), words("o", 9), echo=True)
    wire.complete(words("a", 40) + words("o", 9), "")

    assert wire.calls()[1].prefix.tokens == 49


def test_of_gaps_to_fill_in_only_the_same_are_known_to_be_alike() -> None:
    wire = TextWire()
    for suffix in ("s", "r", "s"):
        wire.complete(words("a", 40), words("o", 9), counts=usage(60, 9), suffix=suffix)
    wire.complete(words("a", 40), "")
    prefixes = [call.prefix for call in wire.calls()]

    assert [(prefix.of, prefix.tokens) for prefix in prefixes] == [(None, 0), (None, 0), (0, 60), (None, 0)]
    assert [prefix.greatest for prefix in prefixes] == [60, 60, 60, 40]


def test_a_stream_is_made_to_report_usage_and_the_client_does_not_see_it() -> None:
    wire = TextWire()
    exchange = wire.begin("go on", stream=True)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
    piece = {"choices": [{"index": 0, "text": "yes", "finish_reason": "stop"}]}
    counts = {"choices": [], "usage": usage(2, 1)}
    forwarded = exchange.chunk(sse(piece, counts, "[DONE]"), at_s=wire.now_s) + exchange.end(at_s=wire.now_s)

    assert orjson.loads(exchange.upstream_body)["stream_options"] == {"include_usage": True}
    assert forwarded == sse(piece, "[DONE]")
    (call,) = wire.calls()
    assert (call.prompt_tokens, call.completion_tokens, call.finish_reason) == (2, 1, "stop")


def test_what_is_no_event_is_counted() -> None:
    answer = TextAnswer([TextOutput()])
    for data in (b"", b"[]", b"{", b'{"choices":[1,{"index":9}],"usage":null}', b'{"error":{}}'):
        answer.take_event(data, 0.0)

    assert answer.unread == 2
    assert answer.is_error


@pytest.mark.parametrize(("fields", "source"), [({"best_of": 4}, "estimate"), ({"best_of": 1}, None), ({}, None)])
def test_outputs_that_were_made_and_not_given_are_not_counted(fields: dict[str, int], source: str | None) -> None:
    wire = TextWire()
    exchange = wire.begin(words("a", 20), **fields)
    wire.end(exchange, [{"index": 0, "text": words("o", 8), "finish_reason": "stop"}], usage(20, 32))
    (call,) = wire.close().calls()

    assert call.prompt_tokens == 20
    assert (call.completion_tokens, call.completion_tokens_source) == (10 if source else 32, source)
    assert len(wire.recorder.trouble) == (source is not None)
