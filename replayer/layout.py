"""Where tokens that are not drawn stand among a prompt's own: those of a chat template; none in lists of token ids."""

from __future__ import annotations

from dataclasses import dataclass

from rotoscope.replayer.tokens import TokenIds


@dataclass(frozen=True, slots=True)
class Layout:
    """The fixed tokens of one prompt."""

    fixed: tuple[tuple[int, TokenIds], ...] = ()
    """(position in the prompt, ids), of its own tokens only."""
    lead: int = 0
    """How many own tokens stand before the first that is drawn."""
    tail: int = 0
    """How many tokens at the end of the prompt are no part of its text: those that a server adds to every prompt."""

    def fix(self, own: TokenIds, leaves_at: int) -> TokenIds:
        """Put the fixed tokens among those drawn for the positions from `leaves_at` on."""
        for position, ids in self.fixed:
            own[position - leaves_at : position - leaves_at + len(ids)] = ids
        return own


PLAIN = Layout()
