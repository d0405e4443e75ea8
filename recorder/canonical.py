"""The canonical form of a message: what a template may render of it, whatever the client writes around it.

Two forms are kept. The *exact* form tells whether two messages are rendered alike: role, text, name, tool calls and
their ids, thinking that was sent back; a string is the same as one text part, and an absent field, null and "" are one.
The *loose* form tells whether they could be rendered alike by some template and some tokenizer that ignore what may be
ignored: ids, names and thinking are left out, runs of whitespace are one space, arguments of tool calls are laid out
anew. Cache marks (`cache_control`) and refusals are in neither.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.traces.journal import PartRole

_ROLES: dict[str, PartRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "tool",
    "function": "tool",
    "assistant": "assistant",
}
REASONING_FIELDS = ("reasoning_content", "reasoning")
MEDIA_TOKENS = 65_536
"""What an image or a sound may take at most."""
_ESCAPES = 3
"""JSON without other characters than ASCII writes six bytes for a character that UTF-8 writes in two."""
_LAYOUT = 4
"""JSON that a template lays out anew, indented, may be so many times longer than compact JSON."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a prompt, with its text: it lives until its digests are taken."""

    role: PartRole
    exact: bytes = field(repr=False)
    loose: bytes = field(repr=False)
    text_bytes: int
    most_tokens: int
    reasoning_bytes: int = 0
    has_calls: bool = False


def message_part(message: dict[str, Any]) -> Part:
    """Return the canonical form of one message of a chat."""
    role = _ROLES.get(str(message.get("role")), "user")
    texts, media = _content(message.get("content"))
    calls = [_tool_call(call) for call in message.get("tool_calls") or () if isinstance(call, dict)]
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        calls.append(("", str(legacy.get("name") or ""), _text(legacy.get("arguments"))))
    reasoning = reasoning_of(message)
    return _part(
        role,
        str(message.get("role")),
        texts=texts,
        media=media,
        calls=calls,
        reasoning=reasoning,
        names=(_text(message.get("name")), _text(message.get("tool_call_id"))),
    )


def answer_part(content: str, calls: list[tuple[str, str, str]], reasoning: str) -> Part:
    """Return the canonical form of an answer as a client sends it back; calls are (id, name, arguments)."""
    texts = [content] if content else []
    return _part("assistant", "assistant", texts=texts, media=[], calls=calls, reasoning=reasoning, names=("", ""))


def tools_part(tools: Any, rest: dict[str, Any]) -> Part:
    """Return the tool schemas, with what else a template may read, as one part."""
    exact = orjson.dumps([tools, rest], option=orjson.OPT_SORT_KEYS)
    return Part("tools", exact, exact, len(exact), _LAYOUT * _most(exact))


def reasoning_of(message: dict[str, Any]) -> str:
    """Return the thinking in a message or a delta, "" when there is none."""
    for name in REASONING_FIELDS:
        value = message.get(name)
        if value and isinstance(value, str):
            return value
    return ""


def _part(
    role: PartRole,
    sent_role: str,
    *,
    texts: list[str],
    media: list[Any],
    calls: list[tuple[str, str, str]],
    reasoning: str,
    names: tuple[str, str],
) -> Part:
    exact = orjson.dumps([sent_role, texts, media, calls, reasoning, names], option=orjson.OPT_SORT_KEYS)
    loose = " ".join(" ".join([*texts, *map(_loose_call, calls)]).split()).encode()
    if media:
        loose += orjson.dumps(media, option=orjson.OPT_SORT_KEYS)
    most = (_LAYOUT if calls else 1) * _most(exact) + MEDIA_TOKENS * len(media)
    text_bytes = sum(len(text.encode()) for text in texts) + sum(len(name) + len(args) for _, name, args in calls)
    return Part(role, exact, loose, text_bytes, most, len(reasoning.encode()), bool(calls))


def _content(content: Any) -> tuple[list[str], list[Any]]:
    if isinstance(content, str):
        return ([content] if content else []), []
    texts: list[str] = []
    media: list[Any] = []
    for piece in content if isinstance(content, list) else ():
        if isinstance(piece, str):
            texts.append(piece)
        elif isinstance(piece, dict) and isinstance(text := piece.get("text"), str):
            texts.append(text)
        elif isinstance(piece, dict) and piece.get("type") != "refusal":
            media.append({key: value for key, value in piece.items() if key != "cache_control"})
    return [text for text in texts if text], media


def _tool_call(call: dict[str, Any]) -> tuple[str, str, str]:
    function = call.get("function") or call.get("custom") or {}
    if not isinstance(function, dict):
        return _text(call.get("id")), "", ""
    arguments = function.get("arguments")
    return _text(call.get("id")), _text(function.get("name")), _text(function.get("input", arguments))


def _loose_call(call: tuple[str, str, str]) -> str:
    _, name, arguments = call
    with contextlib.suppress(ValueError):
        arguments = orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS).decode()
    return f"{name} {arguments}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _most(exact: bytes) -> int:
    return len(exact) if exact.isascii() else _ESCAPES * len(exact)
