from __future__ import annotations

import pytest

from rotoscope.recorder.dialects.registry import dialect_of


@pytest.mark.parametrize(("path", "name"), [("/v1/chat/completions", "chat"), ("/openai/v1/chat/completions", "chat")])
def test_a_path_tells_the_dialect(path: str, name: str) -> None:
    dialect = dialect_of(path)

    assert dialect is not None
    assert dialect.name == name


@pytest.mark.parametrize("path", ["/", "/v1/models", "/v1/chat/completions/c1", "/tokenize"])
def test_other_paths_are_no_calls(path: str) -> None:
    assert dialect_of(path) is None
