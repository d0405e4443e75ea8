from __future__ import annotations

from dataclasses import replace

import pytest

from rotoscope.replayer.calibration import Calibration
from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.server import DEFAULT_VOCABULARY, Server
from rotoscope.replayer.setup import (
    Setup,
    choose_profile,
    choose_vocabulary,
    identity_of,
    public_model_name,
    setup_of,
)
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.replayer.words import Words
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces.corpus import CorpusName, sha256_of

URL = "http://127.0.0.1:1"
SIMULATOR = Server("m", simulated=True, profile="vllm", block_size=32, vocabulary=Vocabulary(5, 500))


def setup(**options: object) -> Setup:
    given = ReplayOptions(url=URL, **options)  # type: ignore[arg-type]
    return setup_of(
        given, SIMULATOR, traces=3, sessions=3, profile=choose_profile(given, SIMULATOR), vocabulary=Vocabulary(5, 500)
    )


def test_a_run_tells_what_was_asked_for_and_of_which_traces() -> None:
    given = ReplayOptions(url=URL, seed=3, corpus=CorpusName("coding-agents", "1.0"))
    traces = [make_trace(), trace_of(make_call(), outputs="assumed")]

    told = setup_of(
        given,
        replace(SIMULATOR, version="0.1.0"),
        traces=2,
        sessions=2,
        profile=choose_profile(given, SIMULATOR),
        vocabulary=Vocabulary(5, 500),
        identity=identity_of(traces, given),
    )

    assert told.command == "rotoscope replay CORPUS --assume-growth --seed 3"
    assert (told.corpus_name, told.corpus_version, told.corpus_sha256) == ("coding-agents", "1.0", sha256_of(traces))
    assert told.server_version == "0.1.0"


def test_traces_without_a_name_have_their_digest() -> None:
    identity = identity_of([make_trace()], ReplayOptions(url=URL))

    assert (identity.command, identity.called) == ("rotoscope replay CORPUS --seed 0", None)
    assert identity.sha256 == sha256_of([make_trace()])


def test_a_closed_loop_has_a_concurrency_and_an_open_one_a_rate_with_its_arrivals() -> None:
    closed, opened = setup(), setup(rate_per_h=720.0)
    recorded = setup(recorded_starts_s=(0.0, 1.0, 2.0))

    assert (closed.concurrency, closed.rate_per_h, closed.arrivals) == (1, None, None)
    assert (recorded.concurrency, recorded.rate_per_h, recorded.arrivals) == (None, None, "recorded")
    assert (opened.concurrency, opened.rate_per_h, opened.arrivals) == (None, 720.0, "poisson")


def test_the_profile_given_wins_over_the_simulators() -> None:
    profile = choose_profile(ReplayOptions(url=URL, profile="trtllm-whole-blocks"), SIMULATOR)

    assert (profile.name, profile.block_size) == ("trtllm-whole-blocks", 32)
    assert choose_profile(ReplayOptions(url=URL, profile="trtllm-whole-blocks"), Server("m")).block_size == 32


def test_a_simulator_names_its_profile_and_block_size() -> None:
    profile = choose_profile(ReplayOptions(url=URL), SIMULATOR)

    assert (profile.name, profile.block_size) == ("vllm", 32)


@pytest.mark.parametrize("given", [None, "vllm", "sglang"])
def test_the_block_size_given_wins_over_every_profiles(given: str | None) -> None:
    options = ReplayOptions(url=URL, profile=given, block_size=64)

    assert choose_profile(options, SIMULATOR).block_size == choose_profile(options, Server("m")).block_size == 64


@pytest.mark.parametrize("server", [Server("m"), Server("m", profile="of another release", block_size=32)])
def test_else_the_widest_profile_is_taken(server: Server) -> None:
    profile = choose_profile(ReplayOptions(url=URL), server)

    assert (profile.name, profile.block_size, profile.decode_reuse) == ("token", 1, True)


def test_the_vocabulary_given_wins_over_the_servers() -> None:
    said: list[str] = []
    notes = Notes(said.append)
    given = ReplayOptions(url=URL, vocabulary=Vocabulary(1, 9))

    assert choose_vocabulary(given, SIMULATOR, notes) == Vocabulary(1, 9)
    assert choose_vocabulary(ReplayOptions(url=URL), SIMULATOR, notes) == Vocabulary(5, 500)
    assert said == []


def test_an_assumed_vocabulary_is_told() -> None:
    notes = Notes(lambda text: None)

    assert choose_vocabulary(ReplayOptions(url=URL), Server("m"), notes) == DEFAULT_VOCABULARY
    assert "prompts hold ids 1000:30000" in notes.kept[0]


def test_the_salt_is_fresh_unless_given() -> None:
    assert setup(salt="mine").salt == "mine"
    assert setup().salt != setup().salt


def test_gpus_are_one_where_nothing_is_said_and_that_is_told() -> None:
    assert (setup().gpus, setup().gpus_assumed) == (1, True)
    assert (setup(gpus=1).gpus, setup(gpus=1).gpus_assumed) == (1, False)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("org/model", "org/model"),
        ("/home/jo/models/tiny.gguf", "tiny.gguf"),
        ("~/tiny.gguf", "tiny.gguf"),
        ("./tiny/", "tiny"),
        ("C:\\models\\tiny.gguf", "tiny.gguf"),
        ("\\\\host\\tiny.gguf", "tiny.gguf"),
    ],
)
def test_of_a_path_only_the_last_part_is_told(model: str, name: str) -> None:
    assert public_model_name(model) == name


def test_prompts_of_words_are_told_with_their_template() -> None:
    template = ChatTemplate(head=5, turn=11, back=6, tail=11, common=11)
    calibration = Calibration(Words([" the", " cat"]), template, "usage")
    given = ReplayOptions(url=URL, api="chat")
    profile = choose_profile(given, SIMULATOR)

    told = setup_of(
        given, SIMULATOR, traces=3, sessions=3, profile=profile, vocabulary=Vocabulary(0, 2), calibration=calibration
    )

    assert (told.api, told.words, told.template, told.tokens_from) == ("chat", 2, template, "usage")
    assert (setup().words, setup().template, setup().tokens_from) == (None, None, None)


def test_a_concurrency_that_nobody_asked_for_is_told() -> None:
    assert setup().concurrency_assumed
    assert not setup(concurrency=1).concurrency_assumed


def test_gates_that_are_skipped_are_told() -> None:
    assert setup(skipped_gates=("lag",)).skipped_gates == ("lag",)
    assert setup().skipped_gates == ()
