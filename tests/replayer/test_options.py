from __future__ import annotations

from typing import Any

import pytest

from rotoscope.replayer.load.arrivals import POISSON
from rotoscope.replayer.load.mix import Share
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.schedule import Gaps
from rotoscope.traces import UnusableInput


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"url": "nothing://"}, "no URL"),
        ({"sessions": 0}, "sessions must be at least 1"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"ramp_s": -1.0}, "ramp must be 0 seconds or more, not -1"),
        ({"ramp_s": float("inf")}, "ramp must be 0 seconds or more, not inf"),
        ({"arrivals": POISSON}, "at a rate: give --rate"),
        ({"rate_per_h": 0.0}, "rate must be more than 0"),
        ({"rate_per_h": float("nan")}, "rate must be more than 0"),
        ({"rate_per_h": 60.0, "concurrency": 1}, "open loop, .* leave --concurrency out"),
        ({"rate_per_h": 60.0, "ramp_s": 1.0}, "open loop, .* leave --ramp out"),
        ({"duration_s": 0.0}, "duration must be more than 0 seconds"),
        ({"until_ci": 0.0}, "half-width must be more than 0"),
        ({"until_ci": 1.0}, "half-width must be more than 0 and less than 1"),
        ({"until_ci": 0.05, "rate_per_h": 1.0}, "leave --until-ci out"),
        ({"duration_s": float("inf"), "rate_per_h": 1.0}, "duration must be more than 0 seconds"),
        ({"recorded_starts_s": (0.0,), "concurrency": 1}, "open loop, .* leave --concurrency out"),
        ({"recorded_starts_s": (0.0,), "rate_per_h": 0.0}, "rate must be more than 0"),
        ({"recorded_starts_s": (0.0,), "rate_per_h": 1.0, "arrivals": POISSON}, "at a rate: give --rate"),
        ({"mix": (Share(1, 2.0),)}, "a mix performs traces as often as there are sessions"),
        ({"mix": (Share(1, 2.0),), "sessions": 1, "recorded_starts_s": (0.0,)}, "a mix or recorded starts, not both"),
        ({"gpus": -1}, "gpus must be at least 1"),
        ({"timeout_s": 0.0}, "timeout must be more than 0"),
        ({"timeout_s": float("nan")}, "timeout must be more than 0"),
        ({"timeout_s": float("inf")}, "timeout must be more than 0"),
        ({"gpus": 10**30}, "gpus must be at least 1 and at most"),
        ({"sessions": 10**7}, "sessions must be at least 1 and at most 1,000,000"),
        ({"ramp_s": 1e10}, "the ramp must be at least 0.000001 and at most 1,000,000,000, not 1"),
        ({"ramp_s": 1e-30}, "the ramp must be at least"),
        ({"duration_s": 1e10}, "the duration must be at least"),
        ({"timeout_s": 1e300}, "the timeout must be at least"),
        ({"rate_per_h": 1e-30}, "the rate must be at least"),
        ({"until_ci": 1e-9}, "the half-width must be at least"),
        ({"gaps": Gaps(scale=1e-30)}, "the gap scale must be at least"),
        ({"gaps": Gaps(cap_s=1e-300)}, "the gap cap must be at least"),
        ({"mix": (Share(1, 1.0), Share(1, 1e308)), "sessions": 2}, "the weight 1e.308 must be at least"),
        ({"block_size": 2**64}, "block_size must be at least 1 and at most"),
        ({"seed": 2**63}, "a seed is"),
        ({"seed": -(2**63) - 1}, "a seed is"),
        ({"salt": "two words"}, "a salt is"),
        ({"salt": ""}, "a salt is"),
        ({"profile": "unheard"}, "no engine profile 'unheard'"),
        ({"block_size": 0}, "block_size must be at least 1"),
        ({"api_key": "k", "url": "http://user:word@host"}, "not both"),
        ({"api_key": "line\nbreak"}, "API key"),
        ({"engine": "vLLM"}, "no engine 'vLLM': choose one of any, vllm"),
    ],
)
def test_values_that_cannot_be_are_refused(field: dict[str, Any], says: str) -> None:
    with pytest.raises(UnusableInput, match=says):
        ReplayOptions(**{"url": "http://127.0.0.1:1"} | field)


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(ReplayOptions(url="http://127.0.0.1:1", api_key="secret"))
