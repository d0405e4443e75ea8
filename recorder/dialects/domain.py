"""What keeps the caches of a server apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rotoscope.recorder.packing import packed

_NAMED_IN_PATH = re.compile(r"/(?:deployments|models)/([^/:]+)")


def cache_domain(model: Any, salt: Any, *others: Any) -> bytes:
    """Return a name for the cache of a model under a salt, and under what else is given; equal in all dialects."""
    return packed([model, salt, *([others] if any(others) else [])])


def model_of(path: str, body: Mapping[str, Any]) -> Any:
    """Return the model that a body names, or else the path, as those of Azure and Vertex do."""
    found = _NAMED_IN_PATH.search(path)
    return body.get("model") or (found.group(1) if found else None)
