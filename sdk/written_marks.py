"""Marks as they are sent to a gateway, which reads them by `proxy/marks_desk.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rotoscope.recorder.losses import Loss
from rotoscope.recorder.marks import BranchMark, JoinMark, Mark, ToolMark, WaitMark

MOST_CHARS = 1024
"""Of a name; a gateway takes no longer ones."""


def batch_of(marks: Sequence[Mark], *, teller: str, number: int, now_s: float, lost: Mapping[Loss, int] = {}) -> bytes:
    """Return a batch of marks; `teller` and `number` say whether it has come before, `lost` what is not in any."""
    batch: dict[str, Any] = {"teller": teller, "batch": number, "now_s": now_s, "marks": [*map(_written, marks)]}
    if lost:
        batch["lost"] = dict(lost)
    return json.dumps(batch, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _written(mark: Mark) -> dict[str, Any]:
    match mark:
        case ToolMark():
            named = {"mark": "tool", "name": mark.name[:MOST_CHARS], "thread": mark.thread}
            return named | {"start_s": mark.start_s, "end_s": mark.end_s}
        case WaitMark():
            waited = {"mark": "wait", "kind": mark.kind, "thread": mark.thread}
            return waited | {"start_s": mark.start_s, "end_s": mark.end_s}
        case BranchMark():
            began = {"mark": "branch", "thread": mark.thread, "parent": mark.parent}
            return began | {"region": mark.region, "start_s": mark.start_s}
        case JoinMark():
            return {"mark": "join", "region": mark.region, "end_s": mark.end_s}
