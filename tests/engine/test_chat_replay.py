"""Replays of words as messages against a real engine: lengths to the token, and cached tokens equal to the optimum.

The tiny model has a token for each of many characters and a template of plain text; SmolLM2 has a real vocabulary and a
real template with a system prompt of its own, and answers that are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import find_data
from engine.agent_shapes import SHAPES, forking, rewinding, single_branch
from engine.llama_server import FOUR_SLOTS, ONE_SLOT, llama_server

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay
from rotoscope.replayer.schedule import Gaps
from rotoscope.replayer.summary import Summary
from rotoscope.traces import Trace
from rotoscope.traces.formats.recognise import open_trace

TENTH_OF_A_POINT = 0.001

STRICT = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) or m['role'] not in ['user', 'assistant'] %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "<turn>{{ 'model' if m['role'] == 'assistant' else 'user' }}\n{{ m['content'] | trim }}<end>\n"
    "{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
)
"""Like Gemma's and Mistral's: strips contents and refuses roles that do not alternate."""
SAME_FOR_BOTH = (
    "{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %}{{ m['content'] }}</s>{% endif %}{% endfor %}"
)
"""Like those of the first Mistral models: nothing announces an answer but the end of what the user says."""
THINKING = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
)
"""Like those of reasoning models: a prompt ends with the beginning of a thought, which history leaves out."""


@pytest.fixture(scope="module")
def tiny(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tiny_model, ONE_SLOT, tmp_path_factory.mktemp("tiny") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def real(real_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(real_model, ONE_SLOT, tmp_path_factory.mktemp("real") / "log", context=8192) as url:
        yield url


def replayed(name: str, trace: Trace, url: str, folder: Path, *, api: str = "chat") -> Summary:
    """Replay a trace with a salt of its own: of a few hundred words the first may be another test's by chance."""
    options = ReplayOptions(
        url=url,
        api=api,
        salt=re.sub("[^a-z0-9]", "-", f"{api}-{name}".lower()),
        profile="llama.cpp",
        folder=folder,
        timeout_s=120,
        gaps=Gaps(scale=0.0),
    )
    return replay([trace], options)


def check_is_exact(name: str, summary: Summary) -> None:
    both = zip(summary.request_results, summary.optimal_tokens, strict=True)
    pairs = [(result.cached_tokens, optimum) for result, optimum in both]
    print(f"\n{name}: cached, optimum = {pairs}, {summary.setup.words} words, {summary.setup.template}")
    assert summary.is_complete
    assert summary.setup.tokens_from == "tokenizer"
    assert summary.isl_error is None
    assert summary.osl_mismatches == summary.without_ids == 0
    assert [result.prompt_tokens for result in summary.request_results] == [
        result.planned_prompt_tokens for result in summary.request_results
    ]
    assert [cached for cached, _ in pairs] == [optimum for _, optimum in pairs]


@pytest.mark.parametrize(("name", "trace"), SHAPES)
def test_words_are_tokens_of_the_tiny_model(name: str, trace: Trace, tiny: str, tmp_path: Path) -> None:
    check_is_exact(name, replayed(name, trace, tiny, tmp_path))


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_the_other_apis_of_messages_are_as_exact(api: str, tiny: str, tmp_path: Path) -> None:
    check_is_exact(api, replayed("rewinding", rewinding(), tiny, tmp_path, api=api))


def test_six_turns_hit_as_much_as_lists_of_ids(tiny: str, tmp_path: Path) -> None:
    trace = single_branch(turns=6)
    words, ids = (replayed("six turns", trace, tiny, tmp_path / api, api=api) for api in ("chat", "completions"))

    assert words.cache.hit_rate is not None
    assert ids.cache.hit_rate is not None
    print(f"\nsix turns: hit rate {words.cache.hit_rate:.4f} in messages, {ids.cache.hit_rate:.4f} in lists of ids")
    assert words.cache.hit_rate >= ids.cache.hit_rate - TENTH_OF_A_POINT


@pytest.mark.parametrize("name", ["weka/trace_0187.json", "trtllm/django__django-16801.trace.json"])
def test_a_trace_of_an_agent_is_replayed_without_loss(name: str, tiny: str, tmp_path: Path) -> None:
    folder = find_data()
    if folder is None:
        pytest.skip("no reference data here")
    trace = open_trace(folder / name)

    words, ids = (replayed(name, trace, tiny, tmp_path / api, api=api) for api in ("chat", "completions"))

    check_is_exact(name, words)
    assert words.cache.hit_rate is not None
    assert ids.cache.hit_rate is not None
    print(f"{name}: hit rate {words.cache.hit_rate:.5f} in messages, {ids.cache.hit_rate:.5f} in lists of ids")
    assert abs(words.cache.hit_rate - ids.cache.hit_rate) < TENTH_OF_A_POINT


@pytest.mark.parametrize(("name", "trace"), [("forking", forking()), ("rewinding", rewinding())])
def test_words_are_tokens_of_a_real_vocabulary_and_a_real_template_is_measured(
    name: str, trace: Trace, real: str, tmp_path: Path
) -> None:
    summary = replayed(name, trace, real, tmp_path)

    check_is_exact(f"{name}, SmolLM2", summary)
    assert summary.setup.template is not None
    assert summary.setup.template.head > 20  # the system prompt that the template puts first


@pytest.mark.parametrize(
    ("name", "template", "takes_up"),
    [("strict", STRICT, True), ("same", SAME_FOR_BOTH, True), ("thinking", THINKING, False)],
)
def test_templates_of_every_kind_are_measured_out(
    name: str, template: str, takes_up: bool, tiny_model: Path, tmp_path: Path
) -> None:
    with llama_server(tiny_model, (*ONE_SLOT, "--chat-template", template), tmp_path / "log") as url:
        for shape, trace in SHAPES[:3]:
            summary = replayed(shape, trace, url, tmp_path / shape)

            check_is_exact(f"{shape}, template {name}", summary)
            assert summary.setup.template is not None
            assert summary.setup.template.takes_answers_up is takes_up


def test_many_sessions_on_four_slots_stay_at_or_below_the_optimum(tiny_model: Path, tmp_path: Path) -> None:
    with llama_server(tiny_model, FOUR_SLOTS, tmp_path / "log") as url:
        options = ReplayOptions(
            url=url, api="chat", profile="llama.cpp", sessions=10, concurrency=4, salt="many", folder=tmp_path / "out"
        )
        summary = replay([trace for _, trace in SHAPES], options)

    pairs = zip(summary.request_results, summary.optimal_tokens, strict=True)
    print(f"\nfour slots: {summary.cache.cached_tokens} of {summary.cache.optimal_tokens} tokens of the optimum")
    assert summary.is_complete
    assert summary.isl_error is None
    assert all(one.cached_tokens is not None and one.cached_tokens <= optimum for one, optimum in pairs)
