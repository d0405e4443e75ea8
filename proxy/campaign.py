"""The campaign that a command was asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from rotoscope.recorder.campaigns import Campaign, Campaigns, campaigns_folder
from rotoscope.recorder.telling import say


@contextlib.contextmanager
def chosen_campaign(name: str | None, environment: Mapping[str, str]) -> Iterator[Campaign | None]:
    """Give the campaign of a name while the block runs, and say when it begins; None where no name is given.

    Raises UnusableInput.
    """
    if name is None:
        yield None
        return
    with Campaigns(campaigns_folder(environment)).opened(name) as campaign:
        if campaign.is_new:
            say("a campaign begins: 'rotoscope campaign end NAME' destroys its key")  # what is said may go to a log
        yield campaign
