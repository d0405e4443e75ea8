from __future__ import annotations

import pytest

from rotoscope.proxy.intercept.modes import chosen_mode
from rotoscope.traces.errors import UnusableInput


def test_a_namespace_is_listened_to_where_it_is_found() -> None:
    mode = chosen_mode("namespace", {"HTTPS_PROXY": "http://proxy.example:3128"})

    assert (mode.spec, mode.makes_namespace, mode.is_asked, mode.behind) == ("transparent", True, False, None)


def test_programs_are_named_in_local_mode() -> None:
    assert chosen_mode("local:claude,node", {}).is_local


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("local", "would be about every program of this machine"),
        ("namespace@8080", "nothing to say of namespace mode"),
        ("regular:what", "nothing to say of regular mode"),
        ("regular@0.0.0.0:8080", "would be a proxy for everybody"),
        ("wireguard", "there is no such mode"),
    ],
)
def test_what_is_no_mode_is_refused_in_words(given: str, message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        chosen_mode(given, {})
