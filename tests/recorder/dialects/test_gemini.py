from __future__ import annotations

from typing import Any

import orjson
import pytest

from rotoscope.recorder.canonical import message_part
from rotoscope.recorder.dialects.gemini import Candidate, GeminiAnswer, chat_messages, parse_request
from rotoscope.recorder.dialects.request import NotACall, Request
from rotoscope.recorder.usage import Usage

PATH = "/v1beta/models/m:streamGenerateContent"
Part = dict[str, Any]


def text(said: str, **fields: Any) -> Part:
    return {"text": said} | fields


def call(name: str, **fields: Any) -> Part:
    return {"functionCall": {"name": name, "args": {"a": 1}} | fields}


def result(name: str, said: Any, **fields: Any) -> Part:
    return {"functionResponse": {"name": name, "response": {"output": said}} | fields}


def request(path: str = PATH, **fields: Any) -> Request:
    return parse_request(path, orjson.dumps({"contents": [{"role": "user", "parts": [text("hi")]}]} | fields))


def exact_forms(*contents: Part) -> list[bytes]:
    return [message_part(message).exact for message in chat_messages(contents)]


def sent_back(*parts: Part) -> bytes:
    (exact,) = exact_forms({"role": "model", "parts": list(parts)})
    return exact


def chunk(*parts: Part, finish: str | None = None, index: int | None = None, **fields: Any) -> Part:
    candidate: Part = {"content": {"role": "model", "parts": list(parts)}}
    candidate |= {} if finish is None else {"finishReason": finish}
    return {"candidates": [candidate if index is None else candidate | {"index": index}]} | fields


def stream(*events: Any, outputs: int = 1) -> GeminiAnswer:
    """Take in events one second apart."""
    answer = GeminiAnswer([Candidate() for _ in range(outputs)])
    for at_s, event in enumerate(events):
        assert not answer.take_event(event if isinstance(event, bytes) else orjson.dumps(event), float(at_s))
    return answer


def whole(body: Any, outputs: int = 1) -> GeminiAnswer:
    answer = GeminiAnswer([Candidate() for _ in range(outputs)])
    answer.take_whole(body if isinstance(body, bytes) else orjson.dumps(body), 1.0)
    return answer


SIGNED = {"thoughtSignature": "sealed"}
ANSWERS = [
    [text("Hello")],
    [text("a"), text("b")],
    [text("hm", thought=True), text("Hello")],
    [call("read")],
    [text("a"), call("read", id="c1") | SIGNED, call("write", id="c2")],
    [call("read"), text("a"), call("read")],
    [text("ä€", **SIGNED)],
    [text("a"), text("", **SIGNED)],
    [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"codeExecutionResult": {"output": "1"}}, text("a")],
    [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
]


@pytest.mark.parametrize("parts", ANSWERS)
def test_an_answer_is_the_content_that_the_client_sends_back(parts: list[Part]) -> None:
    assert whole(chunk(*parts, finish="STOP")).outputs[0].sent_back().exact == sent_back(*parts)
    assert whole([chunk(part) for part in parts]).outputs[0].sent_back().exact == sent_back(*parts)
    assert stream(*map(chunk, parts)).outputs[0].sent_back().exact == sent_back(*parts)


def test_texts_that_came_in_pieces_may_be_sent_back_in_one() -> None:
    assert stream(chunk(text("a")), chunk(text("b"))).outputs[0].sent_back().exact == sent_back(text("ab"))
    assert sent_back(text("a"), text("", **SIGNED)) == sent_back(text("a", **SIGNED))


def test_an_answer_that_is_sent_back_chunk_by_chunk_is_one_message() -> None:
    parts = [text("hm", thought=True), text("a"), text("b"), call("read") | SIGNED]
    (one,) = map(message_part, chat_messages([{"role": "model", "parts": parts}]))
    (several,) = map(message_part, chat_messages([{"role": "model", "parts": [part]} for part in parts]))

    assert (one.loose, one.reasoning_bytes) == (several.loose, several.reasoning_bytes)
    assert one.exact != several.exact


def test_thinking_that_was_told_of_need_not_be_sent_back_where_it_is_signed() -> None:
    answer = stream(chunk(text("hm", thought=True)), chunk(call("read") | SIGNED))

    assert answer.outputs[0].sent_back().exact == sent_back(call("read") | SIGNED)
    assert answer.outputs[0].sent_back().exact != sent_back(call("read"))


@pytest.mark.parametrize("stand_in", ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"])
def test_what_stands_in_for_a_signature_is_no_thinking(stand_in: str) -> None:
    assert sent_back(call("f") | {"thoughtSignature": stand_in}) == sent_back(call("f"))
    assert sent_back(call("f") | SIGNED) != sent_back(call("f"))


@pytest.mark.parametrize("parts", [[text("hm", thought=True), text("a")], [text("a", **SIGNED)]])
def test_thinking_that_was_cleared_makes_another_message_of_the_same_text(parts: list[Part]) -> None:
    kept = whole(chunk(*parts)).outputs[0].sent_back()
    (cleared,) = map(message_part, chat_messages([{"role": "model", "parts": [text("a")]}]))

    assert (kept.loose, cleared.reasoning_bytes) == (cleared.loose, 0)
    assert kept.reasoning_bytes > 0
    assert kept.exact != cleared.exact


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"contents":[]}', b'{"contents":"x"}', b'{"request":{}}'])
def test_what_is_no_request_is_told_without_its_content(body: bytes) -> None:
    with pytest.raises(NotACall) as refused:
        parse_request(PATH, body)

    assert str(refused.value) in ("the body is not JSON", "the body has no contents")


def test_models_keep_caches_apart() -> None:
    paths = [
        PATH,
        "/v1beta/models/n:generateContent",
        "/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
    ]
    domains = [request(path).domain for path in paths]

    assert domains[0] == domains[2] != domains[1]


@pytest.mark.parametrize(("method", "is_stream"), [("streamGenerateContent", True), ("generateContent", False)])
def test_the_path_says_whether_the_answer_is_a_stream(method: str, is_stream: bool) -> None:
    assert request(f"/v1/models/m:{method}").is_stream == is_stream


def test_the_system_text_stands_before_the_tools() -> None:
    (prompt,) = request(
        systemInstruction={"parts": [text("be"), text("good")]}, tools=[{"functionDeclarations": [{"name": "f"}]}]
    ).prompts

    assert [message["role"] for message in prompt.messages] == ["system", "user"]
    assert (prompt.tools_at, prompt.tools is not None) == (1, True)


def test_both_spellings_are_one() -> None:
    camel = request(
        systemInstruction={"parts": [text("be")]},
        cachedContent="c",
        generationConfig={"thinkingConfig": {}, "responseSchema": {"type": "OBJECT"}},
        contents=[{"role": "user", "parts": [result("f", "x")]}, {"role": "model", "parts": [call("f") | SIGNED]}],
    )
    snake = request(
        system_instruction={"parts": [text("be")]},
        cached_content="c",
        generation_config={"response_schema": {"type": "OBJECT"}},
        contents=[
            {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"output": "x"}}}]},
            {
                "role": "model",
                "parts": [{"function_call": {"name": "f", "args": {"a": 1}}, "thought_signature": "sealed"}],
            },
        ],
    )

    assert camel.prompts == snake.prompts


def test_a_request_inside_another_is_that_request() -> None:
    inner = {"contents": [{"role": "user", "parts": [text("hi")]}]}
    wrapped = parse_request("/v1internal:generateContent", orjson.dumps({"model": "m", "request": inner}))

    assert wrapped.prompts == request().prompts
    assert stream({"response": chunk(text("a"), finish="STOP")}).outputs[0].sent_back().exact == sent_back(text("a"))


@pytest.mark.parametrize(
    "fields",
    [
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 9}}},
        {"generationConfig": {"responseSchema": {"type": "OBJECT"}}},
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        {"cachedContent": "cachedContents/c1"},
    ],
)
def test_what_the_model_may_be_told_is_part_of_the_prompt(fields: dict[str, Any]) -> None:
    assert request(**fields).prompts != request().prompts


def test_sampling_changes_no_prompt() -> None:
    settings = {"temperature": 1, "maxOutputTokens": 9, "candidateCount": 2}
    asked = request(
        generationConfig=settings, safetySettings=[{}], toolConfig={"functionCallingConfig": {"mode": "AUTO"}}
    )

    assert asked.prompts == request().prompts
    assert asked.choices == 2


@pytest.mark.parametrize("parts", [[], None, [None], [{}], ""])
def test_a_content_without_parts_is_an_empty_message(parts: Any) -> None:
    assert (
        len(exact_forms({"role": "user", "parts": parts})) == len(exact_forms({"role": "model", "parts": parts})) == 1
    )


def test_results_of_tools_are_messages_of_their_own() -> None:
    content = {"role": "user", "parts": [result("f", "x", id="c1"), result("g", "y"), text("go"), text("on")]}
    messages = chat_messages([content])

    assert [message["role"] for message in messages] == ["tool", "tool", "user"]
    assert [message.get("tool_call_id") for message in messages] == ["c1", "", None]
    assert [message.get("name") for message in messages] == ["f output", "g output", None]
    assert [message["content"] for message in messages] == ["x", "y", ["go", "on"]]


def test_results_of_several_fields_are_json() -> None:
    def form(response: Any) -> bytes:
        (exact,) = exact_forms({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]})
        return exact

    assert form({"a": 1, "b": "x"}) == form({"b": "x", "a": 1}) != form({"a": 1, "b": "y"})
    assert form({"output": "x"}) != form({"error": "x"}) != form({"error": "x", "code": 1})


def test_the_last_counts_of_a_stream_count() -> None:
    first = {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10}
    details = [{"modality": "TEXT", "tokenCount": 5}, {"modality": "IMAGE", "tokenCount": 4}]
    end = first | {
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 3,
        "cachedContentTokenCount": 0,
        "promptTokensDetails": details,
    }

    assert stream(chunk(text("a"), usageMetadata=first), chunk(usageMetadata=end)).usage == Usage(9, 7, 0, 3, 4)
    assert stream(chunk(usageMetadata={"promptTokenCount": 9})).usage == Usage(9)
    assert stream(chunk(usageMetadata={"promptTokenCount": 9, "thoughtsTokenCount": 3})).usage == Usage(9, 3, None, 3)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("OTHER", "unknown"),
    ],
)
def test_finish_reasons_are_of_a_closed_set(said: str, reason: str) -> None:
    assert stream(chunk(text("a"), finish=said)).outputs[0].finish_reason == reason


def test_an_answer_that_calls_a_tool_says_so() -> None:
    answer = stream(chunk(call("read", id="c1")), chunk(finish="STOP"))

    assert answer.outputs[0].finish_reason == "tool_calls"
    assert (answer.outputs[0].tool_names, answer.outputs[0].tool_ids) == (["read"], ["c1"])


def test_a_stream_is_done_when_all_candidates_have_finished() -> None:
    first, second = chunk(text("a"), finish="STOP", index=1), chunk(text("b"), finish="STOP", index=0)

    assert not stream(first, outputs=2).is_done
    assert stream(first, second, outputs=2).is_done
    assert [x.sent_back().loose for x in stream(first, second, outputs=2).outputs] == [b"b", b"a"]


@pytest.mark.parametrize("candidate", [{"index": 7}, {"index": "x"}, {"index": -1}, 3, None])
def test_a_candidate_that_was_not_asked_for_is_left_out(candidate: Any) -> None:
    assert stream({"candidates": [candidate]}).outputs[0].chunks == 0


def test_a_prompt_that_was_blocked_has_an_empty_answer() -> None:
    answer = stream({"promptFeedback": {"blockReason": "SAFETY"}})

    assert (answer.outputs[0].finish_reason, answer.is_done) == ("content_filter", True)


def test_pieces_of_output_are_counted_from_the_first() -> None:
    answer = stream(
        chunk(text("")), chunk(text("a")), chunk(text("", **SIGNED)), chunk(call("read")), chunk(finish="STOP")
    )

    assert (answer.outputs[0].first_at_s, answer.outputs[0].chunks) == (1.0, 2)


@pytest.mark.parametrize("body", [{"error": {"code": 429}}, [{"error": {"code": 429}}]])
def test_an_error_is_seen(body: Any) -> None:
    assert (whole(body).is_error, whole(body).is_done) == (True, False)


def test_an_error_inside_a_stream_is_seen() -> None:
    answer = stream(chunk(text("a")), {"error": {"code": 503}})

    assert (answer.is_error, answer.is_done) == (True, False)


@pytest.mark.parametrize("body", [b"", b"<html>", b"3", b"[3]"])
def test_an_answer_that_is_no_json_is_counted(body: bytes) -> None:
    assert (whole(body).unread, whole(body).is_done) == (1, False)


def test_nothing_said_is_in_the_repr() -> None:
    secret = "CANARY"
    parts = [text(secret, thought=True), text(secret, thoughtSignature=secret), call(secret, id=secret)]
    asked = request(contents=[{"role": "model", "parts": parts}], cachedContent=secret)

    assert secret not in repr(stream(*map(chunk, parts)))
    assert secret not in repr(asked)
