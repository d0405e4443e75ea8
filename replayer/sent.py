"""The streams that a run really sent, kept for the optimum that is computed when it is over."""

from __future__ import annotations

from collections.abc import Sequence

from rotoscope.replayer.load.warm_up import Preloaded
from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.session import Performed
from rotoscope.replayer.token_streams import CallName, SentTokens, SharedName, StreamName
from rotoscope.replayer.tokens import TokenIds
from rotoscope.traces.analysis.profiles import EngineProfile
from rotoscope.traces.analysis.realised import SentStream, realised_hits


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
