from __future__ import annotations

from typing import Any

import pytest
from chat_wire import usage

from rotoscope.recorder.usage import Usage, chat_usage, gemini_usage, messages_usage, responses_usage


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, Usage()),
        (usage(10, 5), Usage(10, 5)),
        (usage(10, 5, cached=8, reasoning=3), Usage(10, 5, 8, 3)),
        (usage(10, 0, cached=0, reasoning=0), Usage(10, 0, 0, 0)),
        (usage(10, 5) | {"prompt_tokens_details": None, "completion_tokens_details": None}, Usage(10, 5)),
        (usage(10, 5) | {"prompt_cache_hit_tokens": 4}, Usage(10, 5, 4)),
        (usage(10, 5) | {"reasoning_tokens": 2}, Usage(10, 5, None, 2)),
        ({"prompt_tokens": 10.0, "completion_tokens": True}, Usage(10)),
        ({"prompt_tokens": 0, "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": "10", "completion_tokens": [5]}, Usage()),
        ({"prompt_tokens": 1e300, "completion_tokens": 2**31}, Usage()),
    ],
)
def test_counts_are_read_and_zeros_are_kept(raw: dict[str, Any], expected: Usage) -> None:
    assert chat_usage(raw) == expected


def test_thinking_is_part_of_the_output() -> None:
    assert chat_usage(usage(10, 5, reasoning=9)).reasoning_tokens == 5


def test_parts_of_a_prompt_that_do_not_overlap_are_added_up() -> None:
    told = {"input_tokens": 3, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 9}

    assert messages_usage(told) == Usage(15, 9, 7)
    assert messages_usage({"input_tokens": 3, "cache_creation_input_tokens": 0}) == Usage(3, None, 0)
    assert messages_usage({"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 12}}) == Usage(
        None, 9, None, 9
    )


def test_tokens_of_images_and_sounds_are_counted_apart() -> None:
    details = {"audio_tokens": 2, "image_tokens": 3, "cached_tokens": 0}

    assert chat_usage({"prompt_tokens": 9, "prompt_tokens_details": details}) == Usage(9, None, 0, None, 5)
    assert responses_usage({"input_tokens": 4, "input_tokens_details": details}) == Usage(4, None, 0, None, 4)
    assert gemini_usage({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}, {}, 3]}) == Usage(
        media_tokens=2
    )
    assert gemini_usage({"promptTokensDetails": 3}) == Usage()


def test_a_sum_that_no_journal_can_hold_is_told_by_nobody() -> None:
    most = 2**31 - 1

    assert messages_usage({"input_tokens": most, "cache_read_input_tokens": 1, "output_tokens": 2}) == Usage(None, 2, 1)
    assert gemini_usage({"candidatesTokenCount": most, "thoughtsTokenCount": 1}) == Usage(reasoning_tokens=1)
    assert chat_usage({"prompt_tokens_details": {"audio_tokens": most, "image_tokens": 1}}) == Usage()
