"""How formats are told from one another by the beginning of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rotoscope.traces.formats.source import HEAD_BYTES

_PLAYS = re.compile(rb'"schema"\s*:\s*"dynamo\.agentic_mooncake"')
_DYNAMO = re.compile(rb'"schema"\s*:\s*"dynamo\.(request|agent)\.trace\.')
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]:]', re.DOTALL)
"""A string, which the end of the head may cut, a bracket or a colon."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, and the keys of its first JSON object as far as it shows them."""

    data: bytes

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(_keys(self.data))

    @property
    def may_go_on(self) -> bool:
        """Whether what is not seen here may come later."""
        return len(self.data) >= HEAD_BYTES


def is_trtllm(head: Head) -> bool:
    return "events" in head.keys and (b'"event_type"' in head.data or not head.may_go_on)


def is_weka(head: Head) -> bool:
    return "requests" in head.keys and (b'"hash_ids"' in head.data or "block_size" in head.keys)


def is_dynamo(head: Head) -> bool:
    return not head.keys.isdisjoint(("event", "event_type")) and _DYNAMO.search(head.data) is not None


def is_tracelab(head: Head) -> bool:
    return {"session_id", "input_tokens_total"} <= head.keys


def is_tracelab_csv(head: Head) -> bool:
    first = head.data.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    columns = set(first.replace(b" ", b"").strip().split(b","))
    return {b"round_idx", b"prefix_len", b"input_len", b"output_len"} <= columns


def is_vcr(head: Head) -> bool:
    """Tell the meta line with a record behind it, or a record."""
    keys = head.keys == {"meta"} or {"prompt_tokens", "output_tokens", "ttft_ms"} <= head.keys
    return keys and b'"ttft_ms"' in head.data


def is_plays(head: Head) -> bool:
    return {"schema", "hash_id_scope"} <= head.keys or ("schema" in head.keys and _PLAYS.search(head.data) is not None)


def is_mooncake(head: Head) -> bool:
    """Tell rows with lengths, and AIPerf's with text in their place, which are refused by name when they are read."""
    keys = head.keys
    has_text = "text_input" in keys or ("payload" in keys and "timestamp" in keys)
    has_messages = "messages" in keys and not keys.isdisjoint(("output_length", "delay", "session_id"))
    return not keys.isdisjoint(("input_length", "input_tokens")) or has_text or has_messages


def _keys(head: bytes) -> Iterator[str]:
    """Yield the keys of the first JSON object of a file as far as its head shows them."""
    if not head.lstrip().startswith(b"{"):
        return
    depth, text = 0, b""
    for match in _TOKEN.finditer(head):
        token = match.group()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return
        elif token == b":" and depth == 1:
            yield text.strip(b'"').decode("utf-8", "replace")
        text = token
