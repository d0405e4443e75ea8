from __future__ import annotations

import pytest

from rotoscope.replayer.sweep.settings import parse_concurrencies, parse_settings
from rotoscope.traces.errors import UnusableInput


def test_settings_keep_their_order_and_that_of_their_values() -> None:
    settings = parse_settings(["router=kv,round-robin", "batch=32, 8", "model=owner/name", "flag=--on,--off"])

    assert [*settings.items()] == [
        ("router", ("kv", "round-robin")),
        ("batch", ("32", "8")),
        ("model", ("owner/name",)),
        ("flag", ("--on", "--off")),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "batch",
        "=8",
        "Batch=8",
        "batch=",
        "batch=8,,9",
        "batch=8,8",
        "port=1",
        "concurrency=1",
        "valid=1",
        "point=1",
        "duration_s=1",
        "m=/models/x",
    ],
)
def test_other_settings_are_refused(text: str) -> None:
    with pytest.raises(UnusableInput):
        parse_settings([text])


def test_a_setting_is_given_once() -> None:
    with pytest.raises(UnusableInput, match="twice"):
        parse_settings(["batch=8", "batch=9"])


def test_concurrencies_are_different_numbers_from_one() -> None:
    assert parse_concurrencies("16,1, 4") == (16, 1, 4)
    for text in ("", "0", "1,1", "1.5", "a", "1,", "-2"):
        with pytest.raises(UnusableInput):
            parse_concurrencies(text)
