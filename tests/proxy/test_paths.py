from __future__ import annotations

import pytest

from rotoscope.proxy.paths import Target, split


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/chat/completions?a=b", Target("/v1/chat/completions?a=b")),
        ("/run/one/v1/chat/completions?a=/run/x/", Target("/v1/chat/completions?a=/run/x/", run="one")),
        ("/token/secret/v1/models", Target("/v1/models", token="secret")),
        ("/token/secret/run/a%20b%2Fc/v1/models", Target("/v1/models", token="secret", run="a b/c")),
        ("/run/one/run/two/v1", Target("/run/two/v1", run="one")),
        ("/run/one/token/two/v1", Target("/token/two/v1", run="one")),
        ("/run/one", Target("/run/one")),
        ("/run//v1", Target("/run//v1")),
        ("/running/one/v1", Target("/running/one/v1")),
        ("/v1/run/one/v1", Target("/v1/run/one/v1")),
    ],
)
def test_what_stands_before_the_path_is_taken_off(target: str, expected: Target) -> None:
    assert split(target, base_path="/v1", takes_token=True) == expected


def test_path_of_the_upstream_is_left_alone_where_it_looks_like_ours() -> None:
    assert split("/run/api/v1/models", base_path="/run/api/v1", takes_token=True) == Target("/run/api/v1/models")
    assert split("/run/x/run/api/v1/models", base_path="/run/api/v1", takes_token=True) == Target(
        "/run/api/v1/models", run="x"
    )


def test_token_is_no_word_where_none_is_asked_for() -> None:
    assert split("/token/count", base_path="/v1", takes_token=False) == Target("/token/count")
    assert split("/token/count/v1", base_path="/v1", takes_token=False) == Target("/token/count/v1")


def test_names_and_tokens_are_not_shown() -> None:
    assert "secret" not in repr(split("/token/secret-1/run/secret-2/secret-3", base_path="", takes_token=True))
