"""What keeps the caches of a server apart."""

from __future__ import annotations

from typing import Any

import orjson


def cache_domain(model: Any, salt: Any, *others: Any) -> bytes:
    """Return a name for the cache of a model under a salt, and under what else is given; equal in all dialects."""
    return orjson.dumps([model, salt, *([others] if any(others) else [])])
