from __future__ import annotations

import pytest

from rotoscope.replayer.limits import Limits
from rotoscope.traces import UnusableInput


def test_limits_are_read_in_any_order_and_said_again() -> None:
    limits = Limits.parse("itl:0.05, ttft:2")

    assert limits == Limits(ttft_s=2.0, itl_s=0.05)
    assert str(limits) == "ttft:2,itl:0.05"
    assert Limits.parse(str(Limits(tpot_s=0.1, latency_s=9.5))) == Limits(tpot_s=0.1, latency_s=9.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no limit ''"),
        ("e2e:3", "no limit 'e2e' in 'e2e:3': choose of ttft, itl, tpot, latency"),
        ("ttft:2,ttft:3", "two limits of ttft"),
        ("ttft", "limit of ttft must be more than 0 seconds, not ''"),
        ("ttft:2s", "not '2s'"),
        ("ttft:0", "more than 0"),
        ("ttft:nan", "more than 0"),
        ("ttft:inf", "more than 0"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, says: str) -> None:
    with pytest.raises(UnusableInput, match=says):
        Limits.parse(text)
