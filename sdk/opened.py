"""What is around one run of a function: begun and ended so that nothing that fails in it reaches the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rotoscope.sdk import likeness
from rotoscope.sdk.recordings import is_on
from rotoscope.sdk.spans import counts

_FOLDER = __file__.removesuffix("opened.py")
_OURS = frozenset({likeness.FILE, *(f"{_FOLDER}{name}.py" for name in ("going_on", "steps", "wrapping"))})
"""Whose frames are between a function and who calls it."""


class Opened(Protocol):
    """What is around one run of a function."""

    def attach(self) -> None:
        """Let what the function does now stand below it."""

    def detach(self) -> None:
        """End that, in the context in which it began."""

    def end(self, error: BaseException | None) -> None:
        """End it for good; `error` is what the function raised."""


Opener = Callable[[], Opened]
"""Begins what is around a run, when anybody wants to know of it."""


def begin(opener: Opener) -> Opened | None:
    """Begin what is around a run; None where nobody wants to know, or it cannot be begun."""
    opened = begin_apart(opener)
    if opened is not None:
        try:
            opened.attach()
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.fail(error)
    return opened


def begin_apart(opener: Opener) -> Opened | None:
    """Begin what is around a run that is not attached yet; None as above."""
    if not is_on():
        return None
    try:
        return opener()
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(error)
        return None


def end(opened: Opened | None, error: BaseException | None) -> None:
    """End what is around a run."""
    if opened is None:
        return
    try:
        opened.detach()
    except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(failure)
    try:
        opened.end(error)
    except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(failure)


def fail(opened: Opened | None, error: BaseException) -> None:
    """End what is around a run that has raised this."""
    hide_frames(error)
    end(opened, error)


def hide_frames(error: BaseException) -> None:
    """Take the frames of what wraps out of a traceback that has just come through them."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OURS:
        traceback = traceback.tb_next
    error.__traceback__ = traceback
