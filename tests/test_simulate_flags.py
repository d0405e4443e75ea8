from __future__ import annotations

import pytest

from rotoscope.simulate_flags import simulator_given
from rotoscope.traces import UnusableInput


def test_a_server_is_no_simulator() -> None:
    assert simulator_given(url="http://127.0.0.1:8000", simulate=False, settings=()) is None


def test_settings_are_those_of_the_simulator() -> None:
    options = simulator_given(url=None, simulate=True, settings=("blocks=4096", "router=kv", "timing=qwen3-235b-gb200"))

    assert options is not None
    assert (options.blocks, options.router, options.max_batch) == (4096, "kv", 16)
    assert "Qwen3" in options.timing.source


@pytest.mark.parametrize(
    ("url", "simulate", "settings", "message"),
    [
        (None, False, (), "expected --url of a server or --simulate"),
        ("http://x", True, (), "expected --url of a server or --simulate"),
        ("http://x", False, ("blocks=1",), "give --simulate"),
        (None, True, ("blocks=1,2",), "rotoscope sweep --simulate"),
        (None, True, ("gpus=4",), "give --gpus"),
        (None, True, ("colour=red",), "no setting 'colour'"),
    ],
)
def test_what_is_neither_or_both_is_refused(
    url: str | None, simulate: bool, settings: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UnusableInput, match=message):
        simulator_given(url=url, simulate=simulate, settings=settings)
