"""The canonical form of a message: what a template may render of it, whatever the client writes around it.

Two forms are kept. The *exact* form tells whether two messages are rendered alike: role, text, name, tool calls and
their ids, thinking that was sent back; a string is the same as one text part, and an absent field, null and "" are one.
The *loose* form tells whether they could be rendered alike by some template and some tokenizer that ignore what may be
ignored: ids, names and thinking are left out, runs of whitespace are one space, arguments of tool calls are laid out
anew. Cache marks (`cache_control`) and refusals are in neither.
"""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.recorder.packing import packed
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
_RENDERED = ("functions", "documents")
"""What beside the tools a template writes out."""
_ESCAPES = 3
"""JSON without other characters than ASCII writes six bytes for a character that UTF-8 writes in two."""
_LAYOUT = 4
"""JSON that a template lays out anew, indented, may be so many times longer than compact JSON."""
_STRETCH_CHARS = 1 << 18


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
    has_media: bool = False
    texts: tuple[str, ...] = field(default=(), repr=False)
    calls: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)
    """Id, name and arguments of each."""
    reasoning: str = field(default="", repr=False)
    schemas: tuple[Any, ...] = field(default=(), repr=False)
    """What a template renders as JSON."""

    @property
    def countable(self) -> str:
        """Its text as most templates write it, without thinking; empty for token ids."""
        if self.role == "text":
            return self.loose.decode(errors="replace") if self.exact.startswith(b"t") else ""
        calls = [f'{{"name": "{name}", "arguments": {arguments or "{}"}}}' for _, name, arguments in self.calls]
        schemas = [json.dumps(schema, ensure_ascii=False) for schema in self.schemas]
        return "".join(self.texts) + "\n".join([*calls, *schemas])


def message_part(message: dict[str, Any]) -> Part:
    """Return the canonical form of one message of a chat."""
    role = _ROLES.get(str(message.get("role")), "user")
    texts, media = _content(message.get("content"))
    sent = message.get("tool_calls")
    calls = [_tool_call(call) for call in sent if isinstance(call, dict)] if isinstance(sent, list) else []
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
    exact = packed([tools, rest])
    named = [tools, *(rest.get(name) for name in _RENDERED)]
    schemas = [schema for value in named if value for schema in (value if isinstance(value, list) else [value])]
    return Part("tools", exact, exact, len(exact), _LAYOUT * _most(exact), schemas=tuple(schemas))


ID_BYTES = 4
"""A token id of a prompt without a template takes so many bytes."""


def text_part(text: str | bytes) -> Part:
    """Return a stretch of plain text, which is rendered as it is."""
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    return Part("text", b"t" + data, data, len(data), len(data))


def id_bytes(ids: Sequence[int]) -> bytes:
    """Return token ids as bytes, `ID_BYTES` each. Raises OverflowError or TypeError when one is none."""
    return array("I", ids).tobytes()


def ids_part(data: bytes) -> Part:
    """Return a stretch of token ids, as bytes of `ID_BYTES` each."""
    return Part("text", b"i" + data, data, len(data), len(data) // ID_BYTES)


UNSEEN_TOKENS = 1 << 24
"""What the server keeps may take at most."""


def opaque_part(name: str) -> Part:
    """Return a part that stands for what only the server has, by its name."""
    data = name.encode(errors="surrogatepass")
    return Part("opaque", b"o" + data, data, 0, UNSEEN_TOKENS)


def history_part(digest: bytes, text_bytes: int) -> Part:
    """Return a part that stands for many parts of known size, by a digest of them all."""
    return Part("opaque", b"h" + digest, digest, text_bytes, UNSEEN_TOKENS)


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
    exact = packed([sent_role, texts, media, calls, reasoning, names])
    loose = one_spaced(" ".join([*texts, *map(_loose_call, calls)])).encode()
    if media:
        loose += packed(media)
    most = (_LAYOUT if calls else 1) * _most(exact) + MEDIA_TOKENS * len(media)
    text_bytes = sum(len(text.encode()) for text in texts) + sum(len(name) + len(args) for _, name, args in calls)
    return Part(
        role,
        exact,
        loose,
        text_bytes,
        most,
        len(reasoning.encode()),
        bool(calls),
        bool(media),
        texts=tuple(texts),
        calls=tuple(calls),
        reasoning=reasoning,
    )


def one_spaced(text: str, *, stretch_chars: int = _STRETCH_CHARS) -> str:
    """Return a text whose runs of whitespace are one space; in stretches, as all words of a long one at once are large."""
    pieces: list[str] = []
    for start in range(0, len(text), stretch_chars):
        stretch = text[start : start + stretch_chars]
        words = " ".join(stretch.split())
        is_apart = bool(pieces) and (stretch[0].isspace() or text[start - 1].isspace())
        if words:
            pieces.append(f" {words}" if is_apart else words)
    return "".join(pieces)


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
        arguments = packed(orjson.loads(arguments)).decode()
    return f"{name} {arguments}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else packed(value).decode()


def _most(exact: bytes) -> int:
    return len(exact) if exact.isascii() else _ESCAPES * len(exact)
