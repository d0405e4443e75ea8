from __future__ import annotations

from typing import Any

import orjson
import pytest

from rotoscope.recorder.dialects.embeddings import KEPT_BYTES, EmbeddingAnswer, embedded_bytes, is_embedding
from rotoscope.recorder.dialects.request import NotACall


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/v1/embeddings", True),
        ("/v1beta/models/e:embedContent", True),
        ("/v1beta/models/e:batchEmbedContents", True),
        ("/v1beta/openai/embeddings", True),
        ("/v1/embeddings/e1", False),
        ("/v1/chat/completions", False),
    ],
)
def test_a_path_tells_an_embedding(path: str, is_one: bool) -> None:
    assert is_embedding(path) == is_one


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"input": "abc"}, 3),
        ({"input": ["ab", "ä"]}, 4),
        ({"input": [1, 2, 3]}, 12),
        ({"input": [[1, 2], [3]]}, 12),
        ({"content": {"role": "user", "parts": [{"text": "abc"}, {"inlineData": {"data": "AAAA"}}]}}, 3),
        ({"requests": [{"model": "models/e", "content": {"parts": [{"text": "ab"}]}}] * 2}, 4),
    ],
)
def test_texts_and_token_ids_have_a_size(fields: dict[str, Any], size: int) -> None:
    assert embedded_bytes(orjson.dumps({"model": "a long name"} | fields)) == (size, {"model": "a long name"} | fields)


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"input":""}', b'{"input":[]}'])
def test_what_is_no_embedding_is_told_without_its_content(body: bytes) -> None:
    with pytest.raises(NotACall) as refused:
        embedded_bytes(body)

    assert str(refused.value) in ("the body is not JSON", "the body has nothing to embed")


def taken(body: bytes, size: int = 1000) -> EmbeddingAnswer:
    answer = EmbeddingAnswer()
    for start in range(0, len(body), size):
        answer.take(body[start : start + size])
    return answer


@pytest.mark.parametrize("numbers", [3, 100_000])
@pytest.mark.parametrize("size", [7, 1 << 20])
def test_counts_at_either_end_of_an_answer_are_read(numbers: int, size: int) -> None:
    if numbers * 4 // size > 10_000:
        size = 4096
    data, usage = {"data": [{"embedding": [0.5] * numbers}]}, {"usage": {"prompt_tokens": 8, "total_tokens": 9}}

    assert taken(orjson.dumps(data | usage), size).prompt_tokens == 8
    assert taken(orjson.dumps(usage | data), size).prompt_tokens == 8


def test_little_of_a_long_answer_is_kept() -> None:
    answer = taken(b"x" * 100_000)

    assert (len(answer.start), len(answer.end)) == (KEPT_BYTES, KEPT_BYTES)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (b'{"usage":{"total_tokens":9}}', 9),
        (b'{"usage":{"details":{"x":1},"prompt_tokens":0}}', 0),
        (b'{"usageMetadata": {"promptTokenCount": 4}}', 4),
        (b'{"usage":null}', None),
        (b'{"usage":{"prompt_tokens":true}}', None),
        (b'{"usage":{"prompt_tokens":-1}}', None),
        (b'{"usage":{"prompt_tok', None),
        (b'{"usage":' + b'{"a":' * 5000, None),
        (b"", None),
    ],
)
def test_what_tells_no_counts_has_none(body: bytes, tokens: int | None) -> None:
    assert taken(body).prompt_tokens == tokens


def test_nothing_that_came_is_in_the_repr() -> None:
    assert "CANARY" not in repr(taken(b"CANARY"))
