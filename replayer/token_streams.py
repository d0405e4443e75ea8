"""One stream of a replay: its tokens, their text, and what was really sent and received of it.

The tokens of a stream are those of the stream it begins like, then its own: a code and drawn tokens up to the end of the
prompt. Its output is drawn too as long as no server has returned another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from rotoscope.replayer.layout import PLAIN, Layout
from rotoscope.replayer.partings import Parting
from rotoscope.replayer.separation import Separation
from rotoscope.replayer.text import StreamText, TokenText
from rotoscope.replayer.tokens import NO_TOKENS, Codes, Identity, TokenIds, Vocabulary, draw, key_of


class SharedName(NamedTuple):
    """Name a shared prefix of a run; `copy` is None where all copies of the corpus have the same."""

    campaign: str
    id: str
    copy: int | None
    domain: int = 0


class CallName(NamedTuple):
    """Name a call of a run."""

    session: int
    call: int


StreamName: TypeAlias = SharedName | CallName


@dataclass(frozen=True, slots=True)
class SentTokens:
    """A stream as it was sent and received: its first `shared` tokens are those of the stream `of`."""

    of: StreamName | None
    shared: int
    tail: TokenIds
    """The rest of the prompt, then the output received."""
    prompt_tokens: int


@dataclass(eq=False, slots=True, weakref_slot=True, kw_only=True)
class TokenStream:
    """One stream of a run, as far as it has been made; `of` must be built before it is."""

    name: StreamName
    run: tuple[Identity, ...]
    """Identity of the run, in which those that begin like no other part."""
    identity: tuple[Identity, ...]
    of: TokenStream | None
    parting: Parting
    prompt_tokens: int
    stream_tokens: int
    vocabulary: Vocabulary
    layout: Layout = PLAIN
    new_text: Callable[[], StreamText] = TokenText
    repeats: Sequence[TokenStream] = ()
    """Streams that leave `of` at the same place without another token in their prompts."""
    code: TokenIds = field(default_factory=lambda: NO_TOKENS)
    """What it leaves `of` with; empty until it has been built."""
    kept: TokenIds | None = None
    """The tokens of the prompt after those of `of`, as long as its text is kept, too."""
    fed: TokenIds = field(default_factory=lambda: NO_TOKENS)
    """The tokens of the output that prompts hold; they do not change any more."""
    received: TokenIds = field(default_factory=lambda: NO_TOKENS)
    text: StreamText | None = None
    written: int = 0
    """How many tokens of the stream `text` begins with."""
    is_sent: bool = False

    @property
    def leaves_at(self) -> int:
        return self.parting.tokens

    @property
    def is_made(self) -> bool:
        """Whether its tokens are settled, be they kept or not."""
        return len(self.code) > 0

    @property
    def is_built(self) -> bool:
        return self.text is not None

    @property
    def own(self) -> TokenIds:
        """The tokens of the prompt after those of `of`."""
        return self._make_own() if self.kept is None else self.kept

    def build(self) -> None:
        """Make the tokens of the prompt and their text; the same each time."""
        if not self.is_made:
            self.code = self._choose_code()
        self.kept = self._make_own()
        self.written = max(self.prompt_tokens - self.layout.tail, self.leaves_at)
        text = self.new_text() if self.of is None else self.of._text_to_extend(self.leaves_at)
        text.append(self.kept[: self.written - self.leaves_at])
        self.text = text

    def free(self) -> None:
        """Keep only what cannot be made again."""
        self.text, self.kept = None, None

    def seal(self) -> None:
        """Keep others from extending its text; it is for many sessions and ends with none of them."""
        assert self.text is not None
        self.text.sealed, self.is_sent = True, True

    def array(self) -> bytes:
        """Return the prompt as a JSON array."""
        assert self.text is not None
        return self.text.array(self.prompt_tokens - self.layout.tail)

    def prompt_ids(self) -> TokenIds:
        """Return the tokens of the prompt."""
        return np.concatenate(list(self._pieces())[::-1])

    def sent(self) -> SentTokens:
        """Say what was sent and received, in terms of the nearest stream that was sent too or is shared."""
        pieces = [self.received, self.own]
        of, shared = self.of, self.leaves_at
        while of is not None and not of.is_sent:
            pieces.append(of._own_and_fed(shared))
            shared, of = of.leaves_at, of.of
        if of is not None:
            common = of._really_begins(shared)
            pieces.append(of._own_and_fed(shared)[common - of.leaves_at :])
            shared = common
        return SentTokens(of.name if of else None, shared, np.concatenate(pieces[::-1]), self.prompt_tokens)

    def add_to(self, separation: Separation) -> None:
        """Note the tokens with which the stream and the one it leaves went on where they part."""
        parts_at = self.leaves_at + self.layout.lead
        place = (self.of.name if self.of else None, parts_at)
        for stream in (self, None if self.layout.lead or place in separation else self.of):
            token = stream._real_token(parts_at) if stream else None
            if stream and token is not None:
                fed = parts_at < stream.prompt_tokens + len(stream.fed)
                separation.add(place, token, prompted=fed)

    def _choose_code(self) -> TokenIds:
        """Take the first code with which no output that is known by now goes on at the place.

        An output of which nothing is known counts as drawn: without ids of a server, when it is told changes no byte.
        """
        excluded = self.of._real_token(self.leaves_at) if self.of and self.parting.excludes else None
        place = (*self.of.identity, self.leaves_at) if self.of else self.run
        codes = _codes(place, self.parting.children, self.parting.ways, self.vocabulary, excluded)
        options = [codes.code(self.parting.rank, way) for way in range(self.parting.ways)]
        taken = {int(stream.received[0]) for stream in self.repeats if len(stream.received)}
        if self.of is not None:
            taken.add(self.of._likely_token(self.leaves_at))
        return next((code for code in options if int(code[0]) not in taken), options[-1])

    def _make_own(self) -> TokenIds:
        if not self.is_made:
            return NO_TOKENS
        return self.layout.fix(self._drawn(self.leaves_at, self.prompt_tokens), self.leaves_at)

    def _real_token(self, position: int) -> int | None:
        """Return one of its own tokens that a prompt held or a server returned, None if there is none."""
        if position < self.prompt_tokens:
            return int(self.own[position - self.leaves_at])
        offset = position - self.prompt_tokens
        output = self.fed if offset < len(self.fed) else self.received
        return int(output[offset]) if offset < len(output) else None

    def _likely_token(self, position: int) -> int:
        """Return one of its own tokens, the drawn one as long as there is no real one; -1 behind its end."""
        token = self._real_token(position)
        if token is not None:
            return token
        return int(self._drawn(position, position + 1)[0]) if position < self.stream_tokens else -1

    def _drawn(self, start: int, stop: int) -> TokenIds:
        ids = draw(key_of(*self.identity), start, stop, self.vocabulary)
        skipped = start - self.parting.tokens - self.layout.lead
        if skipped < len(self.code):
            code, at = self.code[max(skipped, 0) : max(stop - start + skipped, 0)], max(-skipped, 0)
            ids[at : at + len(code)] = code
        return ids

    def _output(self, start: int, stop: int) -> TokenIds:
        """Return a part of the output: what prompts hold already, else what was received, else drawn."""
        if not len(self.fed) and stop <= len(self.received):
            return self.received[start:stop]
        known = np.concatenate([self.fed, self.received[len(self.fed) :]])[start:stop]
        drawn = self._drawn(self.prompt_tokens + start + len(known), self.prompt_tokens + stop)
        return np.concatenate([known, drawn])

    def _feed(self, tokens: int) -> TokenIds:
        if tokens > len(self.fed):
            self.fed = self._output(0, tokens)
        return self.fed[:tokens]

    def _text_to_extend(self, tokens: int) -> StreamText:
        """Return a text of the first tokens of the stream that may grow; what it holds of the output stays as it is."""
        assert self.text is not None
        if tokens > self.written:
            fed = self._feed(max(tokens - self.prompt_tokens, 0))
            self.text = self.text.continued(self.written)
            if self.written < self.prompt_tokens:
                self.text.append(self.own[self.written - self.leaves_at : tokens - self.leaves_at])
            self.text.append(fed[max(self.written - self.prompt_tokens, 0) :])
            self.written = tokens
        return self.text.continued(tokens)

    def _own_and_fed(self, tokens: int) -> TokenIds:
        """Return those of the first tokens of the stream that are its own."""
        return np.concatenate([self.own, self.fed])[: tokens - self.leaves_at]

    def _really_begins(self, tokens: int) -> int:
        """Return how many of its first tokens, as prompts hold them, were sent and received like that."""
        held, received = self.fed[: max(tokens - self.prompt_tokens, 0)], self.received
        length = min(len(held), len(received))
        different = np.flatnonzero(held[:length] != received[:length])
        return min(tokens, self.prompt_tokens) + (int(different[0]) if len(different) else length)

    def _pieces(self) -> Iterator[TokenIds]:
        """Yield the tokens of the prompt from its end to its beginning, stream by stream."""
        stream, tokens = self, self.prompt_tokens
        yield stream.own
        while stream.of is not None:
            tokens, stream = stream.leaves_at, stream.of
            yield stream._own_and_fed(tokens)


@lru_cache
def _codes(
    place: tuple[Identity, ...], children: int, ways: int, vocabulary: Vocabulary, excluded: int | None
) -> Codes:
    """Return the codes at a place; at one that belongs to the whole run they are asked for again and again."""
    return Codes(key_of(*place), children, ways, vocabulary, excluded)
