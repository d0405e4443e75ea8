"""What code is inside of, in contexts that come and go."""

from __future__ import annotations

from contextvars import copy_context

from rotoscope.sdk.keepers import Nobody, RunAlone
from rotoscope.sdk.scopes import Line, Scope, current_scope, enter, leave


def test_who_leaves_in_another_context_than_it_entered_changes_nothing_there() -> None:
    line = Line(RunAlone(Nobody()))
    here, there = Scope(line), copy_context()
    token = there.run(enter, Scope(line))
    ours = enter(here)
    leave(token)

    assert current_scope() is here
    leave(ours)
    assert current_scope() is None
