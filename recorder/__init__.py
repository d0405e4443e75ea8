"""The sans-IO recorder: calls as they happen in, a trace without their content out.

The names below load what they need when they are first used: an agent that only tells of itself needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotoscope.recorder.exchange import Exchange
    from rotoscope.recorder.recorder import Recorder

__all__ = ["Exchange", "Recorder"]

if not TYPE_CHECKING:  # a type checker shall refuse the names that are not in the table

    def __getattr__(name: str) -> object:
        """Load a public name from its module on first use."""
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{name.lower()}"), name)
        return value
