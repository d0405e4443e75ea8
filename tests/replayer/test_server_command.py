from __future__ import annotations

import sys

import pytest

from rotoscope.replayer.server_command import ServerCommand
from rotoscope.traces.errors import UnusableInput


def command(text: str, *settings: str) -> ServerCommand:
    return ServerCommand.parse(f"{sys.executable} {text}", settings=settings)


def test_fields_are_filled_within_their_word() -> None:
    filled = command("serve --port {port} --batch={batch} 'two words'", "batch").filled(
        {"port": "81", "batch": "8 --evil"}
    )

    assert filled[1:] == ["serve", "--port", "81", "--batch=8 --evil", "two words"]


def test_other_braces_stay_as_they_are() -> None:
    text = """serve --config '{"role": "both", "ids": {}, "size": {size}}'"""

    assert command(text, "size").filled({"size": "4"})[-1] == '{"role": "both", "ids": {}, "size": 4}'


def test_what_a_shell_would_do_is_not_done() -> None:
    assert command("serve $HOME '*' ; rm x | y").filled({})[1:] == ["serve", "$HOME", "*", ";", "rm", "x", "|", "y"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("serve 'open", "cannot be split"),
        ("no-such-program-anywhere --port {port}", "no program here: install it"),
        ("VLLM=cpu serve", "put 'env' before variables"),
        (
            f"{sys.executable} --batch {{bacth}}",
            r"the field \{bacth\} but there are only \{port\}, \{concurrency\}, \{batch\}",
        ),
    ],
)
def test_what_cannot_be_started_is_told_before(text: str, says: str) -> None:
    with pytest.raises(UnusableInput, match=says):
        ServerCommand.parse(text, settings=["batch"])
