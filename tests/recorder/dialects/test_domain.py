from __future__ import annotations

import orjson
from chat_wire import PATH, user

from rotoscope.recorder.dialects.chat import parse_request
from rotoscope.recorder.dialects.domain import cache_domain, model_of


def test_models_salts_and_what_else_is_given_keep_caches_apart() -> None:
    domains = [
        cache_domain("m", None),
        cache_domain("n", None),
        cache_domain("m", "s"),
        cache_domain("m", None, "fast"),
    ]

    assert len(set(domains)) == 4
    assert cache_domain("m", None, None) == domains[0]


def test_a_model_has_one_cache_whatever_the_dialect() -> None:
    assert parse_request(PATH, orjson.dumps({"model": "m", "messages": [user("a")]})).domain == cache_domain("m", None)


def test_a_model_may_be_named_in_the_path() -> None:
    azure, vertex = (
        "/openai/deployments/mine/chat/completions",
        "/v1/projects/p/publishers/anthropic/models/c:rawPredict",
    )

    assert [model_of(path, {}) for path in (azure, vertex, PATH)] == ["mine", "c", None]
    assert model_of(azure, {"model": "m"}) == "m"
