from __future__ import annotations

import pytest

from rotoscope.recorder.dialects.registry import dialect_of


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "chat"),
        ("/openai/v1/chat/completions", "chat"),
        ("/v1beta/openai/chat/completions", "chat"),
        ("/v1/completions", "completions"),
        ("/v1/responses", "responses"),
        ("/v1/messages", "messages"),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/claude:streamRawPredict", "messages"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", "gemini"),
        ("/v1beta/models/gemini-2.5-pro%3AstreamGenerateContent", "gemini"),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent", "gemini"),
        ("/v1beta/tunedModels/t:generateContent", "gemini"),
        ("/v1internal:streamGenerateContent", "gemini"),
    ],
)
def test_a_path_tells_the_dialect(path: str, name: str) -> None:
    dialect = dialect_of(path)

    assert dialect is not None
    assert dialect.name == name


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/models",
        "/v1/chat/completions/c1",
        "/tokenize",
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
        "/v1/responses/r1",
        "/v1/responses/r1/cancel",
        "/v1/responses/compact",
        "/v1/responses/input_tokens",
        "/v1beta/models/gemini-2.5-pro",
        "/v1beta/models/gemini-2.5-pro:countTokens",
        "/v1beta/models/gemini-2.5-pro:batchGenerateContent",
        "/v1/threads/t1/messages",
    ],
)
def test_other_paths_are_no_calls(path: str) -> None:
    assert dialect_of(path) is None
