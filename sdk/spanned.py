"""Who listens to HTTP clients, with spans of calls beside it; what makes them is loaded when there is one to make."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from rotoscope.recorder.variables import CALL_SPANS_VARIABLE
from rotoscope.sdk import recordings
from rotoscope.sdk.outgoing import Listener, Outgoing, Request
from rotoscope.sdk.spans import has_provider


def with_call_spans(listener: Listener | None = None, *, asks_usage: bool = True) -> WithCallSpans:
    """Return a listener that also makes spans of calls; headers of the other one name the span of the call.

    `asks_usage` lets response streams be asked for their usage where neither the client nor the other listener asks.
    """
    return WithCallSpans(listener, set() if asks_usage else None)


@dataclass(frozen=True, slots=True)
class WithCallSpans:
    """A listener that also makes spans of calls."""

    listener: Listener | None
    """The other one."""
    refusing: set[str] | None = field(repr=False, compare=False)
    """Where it is no use to ask for the usage of response streams; None where none is to be asked."""

    def __call__(self, request: Request) -> Outgoing | None:
        """Take in a request."""
        if request.method == "POST" and has_provider() and not recordings.is_off() and _are_wanted():
            from rotoscope.sdk.call_spans import heard_with_span

            return heard_with_span(request, self.listener, self.refusing)
        return None if self.listener is None else self.listener(request)


def _are_wanted() -> bool:
    return os.environ.get(CALL_SPANS_VARIABLE, "").strip().lower() not in ("0", "false", "no", "off")
