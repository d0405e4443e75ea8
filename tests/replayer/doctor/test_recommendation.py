from __future__ import annotations

import shlex
from typing import Any

import pytest
from yarl import URL

from rotoscope.replayer.backends.engines import ANY_ENGINE, ENGINES
from rotoscope.replayer.doctor.checks import Known
from rotoscope.replayer.doctor.recommendation import replay_command
from rotoscope.replayer.server import Server
from rotoscope.replayer.tokens import Vocabulary

VLLM = Server("m", engine=ENGINES["vllm"], vocabulary=Vocabulary(1000, 30_000))


def options(server: Server = VLLM, *, given: dict[str, Any] | None = None, **known: Any) -> str:
    fields: dict[str, Any] = {"takes_ids": True, "engine": server.engine.name} | known
    command = replay_command(Known(server, **fields), URL("http://h:8000/v1"), **(given or {}))
    return command.removeprefix("rotoscope replay TRACES --url http://h:8000/v1").strip()


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, ""),
        ({"block_size": 16, "decode_reuse": True}, "--profile vllm"),
        ({"block_size": 128, "decode_reuse": True}, "--profile vllm --block-size 128"),
        ({"block_size": 16, "decode_reuse": None}, "--profile vllm"),
        ({"block_size": 16, "decode_reuse": False}, "--profile prompt-only --block-size 16"),
        ({"engine": "trtllm"}, "--engine trtllm"),
        ({"takes_ids": False, "apis": ["messages", "chat"]}, "--api chat"),
        ({"takes_ids": False, "apis": ["messages"]}, "--api messages"),
    ],
)
def test_only_what_the_server_does_not_tell_is_recommended(known: dict[str, Any], expected: str) -> None:
    assert options(**known) == expected


def test_of_an_engines_profiles_the_one_with_the_measured_block_size_is_chosen() -> None:
    server = Server("m", engine=ENGINES["trtllm"], vocabulary=VLLM.vocabulary)

    assert options(server, block_size=1, decode_reuse=True) == "--profile trtllm"
    assert options(server, block_size=32, decode_reuse=True) == "--profile trtllm-whole-blocks"
    assert options(server, block_size=64, decode_reuse=True) == "--profile trtllm --block-size 64"


def test_dynamo_in_front_of_its_mocker_is_recognised() -> None:
    server = Server("m", engine=ENGINES["dynamo"], vocabulary=VLLM.vocabulary)

    assert options(server, block_size=16, decode_reuse=False) == "--profile dynamo-mocker --block-size 16"
    assert options(server, block_size=16, decode_reuse=True) == "--profile token --block-size 16"


def test_a_simulator_tells_its_profile() -> None:
    server = Server("m", vocabulary=VLLM.vocabulary, simulated=True, profile="trtllm", block_size=8)

    assert options(server, block_size=8, decode_reuse=True) == ""


def test_ids_are_named_where_the_vocabulary_is_not_known() -> None:
    assert options(Server("m")) == "--vocab 1000:30000"


def test_an_engine_that_nobody_told_is_recognised_by_its_metrics() -> None:
    server = Server("m", engine=ANY_ENGINE, vocabulary=VLLM.vocabulary)

    assert options(server, family="sglang", block_size=1, decode_reuse=True) == "--profile sglang"
    assert options(server, block_size=7, decode_reuse=True) == "--profile token --block-size 7"


def test_what_was_given_is_given_again_and_quoted() -> None:
    given = {"model": "my model", "engine": "vllm", "api_key_env": "KEY"}

    words = shlex.split(options(given=given))
    assert words == ["--model", "my model", "--engine", "vllm", "--api-key-env", "KEY"]


def test_user_and_password_are_not_repeated() -> None:
    assert "canary" not in replay_command(Known(VLLM, takes_ids=True), URL("http://me:canary@h/v1"))
