"""What gates look at: the summary of a run, and what is known beside it of its server and its prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rotoscope.replayer.sent import Origin
from rotoscope.replayer.server_metrics.counts import ServerMetrics
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.token_streams import CallName


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run and its server."""

    summary: Summary
    server: ServerMetrics | None = None
    """What the server told of itself before the run; None where it has no metrics."""
    origins: Mapping[CallName, Origin] = field(default_factory=dict, repr=False)
    """What the prompt of each call that was sent begins like."""
    shared_tokens: int = 0
    """Of all shared prefixes together."""


def unforeseen_tokens(setup: Setup) -> int:
    """Return by how many tokens what a prompt of words shares may be off from what is known of it.

    One of a few hundred words now and then begins a prompt of another run, too; and where only the usage tells of the
    template, prompts may part behind more of its tokens than assumed, or before them.
    """
    misplaced = setup.template.ids if setup.template and setup.tokens_from == "usage" else 0
    return 1 + misplaced if setup.words else 0
