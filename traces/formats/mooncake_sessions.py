"""Which rows of a Mooncake file are the turns of one session, where the file does not say it with a `session_id`.

By chains (`by_chain`): a row continues a session when

1. it begins with all whole blocks of the session's last prompt,
2. the last of these blocks belongs to that session alone so far: no row of another session has it,
3. and it was sent later than that prompt.

Two sessions cannot both fit, because a block that two have belongs to none. A row that begins with blocks of one session
alone, but not with all of its last prompt, is doubtful: a turn that was edited or asked again, or somebody who shares a
document. It starts a session of its own, and what it shares counts as shared by both from then on.

What this cannot see: turns of a chat whose last prompt has no whole block of its own; a chat that was cut or
summarised, which starts anew; two people who ask one after the other about the same document, where the question fits
into the partial last block. Rows that repeat a prompt, or that are shorter than the last prompt with its answer, are
taken as turns of the same session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.traces.formats.mooncake_rows import NO_PARENT, SourceRow
from rotoscope.traces.formats.shared_forest import BlockTree, Owners


@dataclass(slots=True)
class Sessions:
    """The sessions of a file, numbered by their first rows."""

    of_rows: list[int] = field(default_factory=list)
    """By row."""
    doubtful_starts: int = 0
    """Rows that start a session, though they begin like an earlier prompt of another one that nobody else had."""
    doubtful_turns: int = 0
    """Rows that continue a session with less than its last prompt and answer."""


def by_id(rows: Sequence[SourceRow]) -> Sessions:
    """Group rows by their ids; a row without one is a session of its own."""
    numbers: dict[str | int, int] = {}
    names = (index if row.session is None else row.session for index, row in enumerate(rows))
    return Sessions([numbers.setdefault(name, len(numbers)) for name in names])


def by_parent(rows: Sequence[SourceRow]) -> Sessions:
    """Group chats with all that go back to the same first one; raise TraceError for ids that repeat or go in a circle."""
    chats: dict[int, SourceRow] = {}
    for row in rows:
        assert row.chat is not None
        if row.chat[0] in chats:
            raise row.error(f"expected an id of its own, found that of line {chats[row.chat[0]].line}", "chat_id")
        chats[row.chat[0]] = row
    roots: dict[int, int] = {}
    numbers: dict[int, int] = {}
    return Sessions([numbers.setdefault(root, len(numbers)) for root in (_root(row, chats, roots) for row in rows)])


def _root(row: SourceRow, chats: dict[int, SourceRow], roots: dict[int, int]) -> int:
    """Return the first chat of a session; the chats on the way to it are remembered."""
    assert row.chat is not None
    chat, parent = row.chat
    way: dict[int, None] = {}
    while chat not in roots and parent in chats and parent != NO_PARENT:
        if chat in way:
            raise row.error("expected a first chat, found a circle", "parent_chat_id")
        way[chat] = None
        link = chats[parent].chat
        assert link is not None
        chat, parent = link
    root = roots.get(chat, chat)
    roots.update(dict.fromkeys((*way, chat), root))
    return root


def by_chain(rows: Sequence[SourceRow], tree: BlockTree) -> Sessions:
    """Infer sessions of rows in the order of time, which are the rows of the tree."""
    inference = _Inference(tree)
    for index in range(len(rows)):
        inference.add(rows, index)
    return inference.sessions


@dataclass(slots=True)
class _Inference:
    tree: BlockTree
    owners: Owners = field(default_factory=Owners)
    sessions: Sessions = field(default_factory=Sessions)
    last: list[int] = field(default_factory=list)
    """By session: its last row."""

    def add(self, rows: Sequence[SourceRow], index: int) -> None:
        path, row = self.tree.paths[index], rows[index]
        known = self.tree.whole_blocks(path, row.prompt_tokens)[: path.known]
        shared = self.owners.shared_length(known)
        session = self.owners.sessions[known[shared]] if shared < len(known) else None
        if session is not None and not self._continues(session, rows, index):
            self.sessions.doubtful_starts += 1
            session = None
        if session is None:
            session = len(self.last)
            self.last.append(index)
        else:
            before = rows[self.last[session]]
            self.sessions.doubtful_turns += row.prompt_tokens < before.prompt_tokens + before.completion_tokens
            self.last[session] = index
        self.owners.add(path, session, 0)
        self.sessions.of_rows.append(session)

    def _continues(self, session: int, rows: Sequence[SourceRow], index: int) -> bool:
        """Whether a row goes on with a session of which it has a block that nobody else has.

        The whole blocks of a session are those of its last prompt, so the last of them is nobody else's either.
        """
        row, before = rows[index], rows[self.last[session]]
        if row.at_ms is None or before.at_ms is None or not before.at_ms < row.at_ms:
            return False
        whole = self.tree.whole_blocks(self.tree.paths[self.last[session]], before.prompt_tokens)
        nodes = self.tree.whole_blocks(self.tree.paths[index], row.prompt_tokens)
        return nodes[: len(whole)] == whole
