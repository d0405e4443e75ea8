"""How prompts are written: as lists of token ids, or as messages of words that a server's template makes a prompt of."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from numpy.typing import ArrayLike

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.layout import PLAIN, Layout
from rotoscope.replayer.text import PackedIds, StreamText, TokenText
from rotoscope.replayer.tokens import NO_TOKENS, TokenIds
from rotoscope.traces.model import Trace


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A trace as its prompts are laid out."""

    trace: Trace
    """Its prefixes say where streams leave one another, its prompts how long they are."""
    layouts: Mapping[int, Layout] = field(default_factory=lambda: MappingProxyType({}))
    lost_tokens: int = 0
    """Prompt tokens that are shared according to the trace as it was, and cannot be."""
    too_short: int = 0
    """Prompts that are longer than in the trace as it was, because none can be so short."""

    def layout(self, call: int) -> Layout:
        """Return the layout of a call's prompt."""
        return self.layouts.get(call, PLAIN)


class Rendering(Protocol):
    """A way to write prompts."""

    @property
    def tail(self) -> TokenIds:
        """The tokens that a server adds to the end of every prompt."""
        ...

    def lay_out(self, trace: Trace) -> LaidOut:
        """Return how the prompts of a trace are laid out."""
        ...

    def shared_layout(self, *, is_root: bool) -> Layout:
        """Return the layout of a shared prefix; `is_root` says that it begins like no other one."""
        ...

    def text(self) -> StreamText:
        """Return the text of a stream of no tokens."""
        ...

    def partial_answer(self, exchange: Exchange, *, taken_up: AbstractSet[int]) -> ArrayLike | None:
        """Return ids of what has been answered by now, None where they are not known.

        `taken_up` says how many tokens of the whole answer later prompts hold, 0 where one goes on at its beginning.
        """
        ...

    async def whole_answer(self, exchange: Exchange, *, taken_up: AbstractSet[int]) -> ArrayLike | None:
        """Return ids of a whole answer, one a token, None where they are not known or not the same when sent back."""
        ...


class TokenLists:
    """Prompts as lists of token ids."""

    @property
    def tail(self) -> TokenIds:
        """No tokens."""
        return NO_TOKENS

    def lay_out(self, trace: Trace) -> LaidOut:
        """Return the trace as it is."""
        return LaidOut(trace)

    def shared_layout(self, *, is_root: bool) -> Layout:
        """Return the layout without fixed tokens."""
        return PLAIN

    def text(self) -> StreamText:
        """Return the text of no ids."""
        return TokenText()

    def partial_answer(self, exchange: Exchange, *, taken_up: AbstractSet[int]) -> ArrayLike | None:
        """Return the ids that the server has returned."""
        return exchange.output_ids or None

    async def whole_answer(self, exchange: Exchange, *, taken_up: AbstractSet[int]) -> ArrayLike | None:
        """Return the ids if the server returned them all."""
        return exchange.whole_output_ids


TOKEN_LISTS = TokenLists()


class TokenArrays(TokenLists):
    """The same for a server in this process, to which ids are handed as they are in memory."""

    def text(self) -> StreamText:
        """Return the packed form of no ids."""
        return PackedIds()


TOKEN_ARRAYS = TokenArrays()
