from __future__ import annotations

import json

import pytest

from rotoscope.traces.canary import Canaries
from rotoscope.traces.canary_tokens import offline_encodings
from rotoscope.traces.offline_encodings import ENCODINGS, load_encoding

CANARY = "a canary that sings 7f3a91c4 times"


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_ids_are_found_within_those_of_a_longer_text(name: str, separators: tuple[str, str]) -> None:
    ids = load_encoding(name).encode_ordinary(f"It is said that {CANARY}, but by whom?")

    hits = Canaries.of([CANARY]).in_text(json.dumps({"prompt": ids}, separators=separators))

    assert {(hit.canary, hit.form) for hit in hits} == {(1, f"token ids of {name}")}


def test_the_encodings_at_hand_are_loaded_once() -> None:
    assert list(offline_encodings()) == list(ENCODINGS)
    assert offline_encodings() is offline_encodings()
