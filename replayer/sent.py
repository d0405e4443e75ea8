"""The streams that a run really sent, kept for the optimum that is computed when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.replayer.load.warm_up import Preloaded
from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.session import Performed
from rotoscope.replayer.token_streams import CallName, SentTokens, SharedName, StreamName
from rotoscope.replayer.tokens import TokenIds
from rotoscope.traces.analysis.profiles import EngineProfile
from rotoscope.traces.analysis.realised import SentStream, realised_hits


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the stream of a call begins like."""

    call: int | None
    """The call of the same session whose first tokens these are; None where they are a shared prefix, or there are none."""
    shared: int
    """How many they are."""
    own_tokens: int
    """Those of the stream beyond."""
    prompt_tokens: int


class SentStreams:
    """Every stream that was sent, each as the tokens by which it differs from one before it."""

    def __init__(self, plan: PromptPlan) -> None:
        self._plan = plan
        self._streams: list[SentStream] = []
        self._index: dict[StreamName, int] = {}

    def add(self, session: int, performed: Sequence[Performed], prompts: SessionPrompts) -> None:
        """Take over the streams of a session that has ended."""
        for one in sorted(performed, key=lambda one: one.result.call):
            call = one.result.call
            self._add(CallName(session, call), prompts.sent(call), one.sent_s, one.first_token_s)

    def add_first(self, ids: TokenIds, *, sent_s: float | None, first_token_s: float | None) -> None:
        """Take over a prompt that was sent before all sessions."""
        self._streams.append(
            SentStream(of=None, shared=0, tail=ids, prompt_tokens=len(ids), sent_s=sent_s, first_token_s=first_token_s)
        )

    def add_preloaded(self, preloaded: Preloaded) -> None:
        """Take over a shared prefix that was sent before all sessions."""
        prompt = preloaded.prompt
        self._streams.append(
            SentStream(
                of=self._index_of(prompt.name),
                shared=prompt.tokens,
                tail=prompt.tail,
                prompt_tokens=prompt.tokens + len(prompt.tail),
                sent_s=preloaded.sent_s,
                first_token_s=preloaded.first_token_s,
            )
        )

    def optimal_tokens(self, requests: Sequence[RequestResult], profile: EngineProfile) -> list[int]:
        """Return the realised optimum of each request (R8)."""
        hits = realised_hits(self._streams, profile)
        return [hits[self._index[CallName(one.session, one.call)]] for one in requests]

    def origins(self) -> dict[CallName, Origin]:
        """Return what each call of the run begins like."""
        names = {index: name for name, index in self._index.items()}
        return {
            name: _origin(self._streams[index], names)
            for name, index in self._index.items()
            if isinstance(name, CallName)
        }

    @property
    def shared_tokens(self) -> int:
        """Return how many tokens the shared prefixes of the run have together."""
        return sum(
            len(self._streams[index].tail) for name, index in self._index.items() if isinstance(name, SharedName)
        )

    def _add(self, name: StreamName, sent: SentTokens, sent_s: float | None, first_token_s: float | None) -> None:
        of = None if sent.of is None else self._index_of(sent.of)
        stream = SentStream(
            of=of,
            shared=sent.shared,
            tail=sent.tail,
            prompt_tokens=sent.prompt_tokens,
            sent_s=sent_s,
            first_token_s=first_token_s,
        )
        self._index[name] = len(self._streams)
        self._streams.append(stream)

    def _index_of(self, name: StreamName) -> int:
        if name not in self._index and isinstance(name, SharedName):
            self._add(name, self._plan.shared_prefix(name), None, None)
        return self._index[name]


def _origin(stream: SentStream, names: dict[int, StreamName]) -> Origin:
    of = None if stream.of is None else names[stream.of]
    return Origin(
        call=of.call if isinstance(of, CallName) else None,
        shared=stream.shared,
        own_tokens=len(stream.tail),
        prompt_tokens=stream.prompt_tokens,
    )
