"""What traces say of a run of many sessions, worked out over plain tuples from rule R3 alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from rotoscope.traces import Trace

Node = tuple[object, ...]


@dataclass
class Truth:
    """What the traces say of a run of many sessions: for each stream how it begins and how long it is."""

    links: dict[Node, tuple[Node | None, int]] = field(default_factory=dict)
    stream_tokens: dict[Node, int] = field(default_factory=dict)
    prompt_tokens: dict[Node, int] = field(default_factory=dict)
    order: dict[Node, int] = field(default_factory=dict)

    @classmethod
    def of(cls, traces: list[Trace], sessions: int) -> Truth:
        truth = cls()
        for session in range(sessions):
            copy, number = divmod(session, len(traces))
            truth._add_session(traces[number], session, copy)
        return truth

    def _add_session(self, trace: Trace, session: int, copy: int) -> None:
        calls: dict[int | str | None, Node | None] = {}
        shared = {domain: self._add_shared(trace, domain, copy) for domain in {call.domain for call in trace.calls()}}
        for call in trace.calls():
            calls[call.call] = name = ("session", session, call.call)
            of = (calls | shared[call.domain])[call.prefix.of]
            self._add(name, of, call.prefix.tokens, call.prompt_tokens + call.completion_tokens)
            self.prompt_tokens[name] = call.prompt_tokens

    def _add_shared(self, trace: Trace, domain: int, copy: int) -> dict[int | str | None, Node | None]:
        """Add the shared prefixes that calls of one domain begin like, which no other domain has (R1)."""
        names: dict[int | str | None, Node | None] = {None: None}
        own_copy: set[str] = set()
        for shared in trace.shared_prefixes:
            parent = shared.prefix
            if shared.kind == "group" or (parent and parent.of in own_copy):
                own_copy.add(shared.id)
            name: Node = (trace.campaign, shared.id, copy if shared.id in own_copy else "all", domain)
            names[shared.id] = name
            self._add(name, names[parent.of if parent else None], parent.tokens if parent else 0, shared.tokens)
        return names

    def _add(self, name: Node, of: Node | None, tokens: int, length: int) -> None:
        self.links[name] = of, tokens
        self.stream_tokens[name] = max(length, self.stream_tokens.get(name, 0))
        self.order.setdefault(name, len(self.order))

    def common(self, a: Node, b: Node) -> int:
        """R3: LCP(c, x) = n when x = of, else min(n, LCP(of, x)), with c the later of the two."""
        if a == b:
            return self.stream_tokens[a]
        later, other = (a, b) if self.order[a] > self.order[b] else (b, a)
        of, tokens = self.links[later]
        return 0 if of is None else min(tokens, self.common(of, other))
