"""Which sessions of a Dynamo request trace are one agent run, and which of them started which.

The newest schema gives a session and the session that started it, older ones a run beside them. A run is what has one
first ancestor; where the file names runs, sessions of one run that nobody started belong to the one that came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.dynamo_records import Request, SessionId


@dataclass(slots=True, eq=False)
class Session:
    """A session, which may have no requests of its own in the file."""

    id: SessionId
    requests: list[int] = field(default_factory=list)
    """Indices of its requests, in the order of their arrival."""
    children: list[Session] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Run:
    """An agent run: a session and all that go back to it."""

    name: str
    root: Session
    sessions: tuple[Session, ...]


def runs_of(requests: Sequence[Request]) -> list[Run]:
    """Group requests that are sorted by arrival and have an identity, by their first; those without one are left out.

    Raise TraceError where sessions start one another in a circle or are said to have two parents.
    """
    sessions: dict[SessionId, Session] = {}
    parents: dict[SessionId, SessionId] = {}
    for index, request in enumerate(requests):
        if request.identity is None:
            continue
        own, parent = request.identity.session, request.identity.parent
        sessions.setdefault(own, Session(own)).requests.append(index)
        if parent is not None:
            sessions.setdefault(parent, Session(parent))
            if parents.setdefault(own, parent) != parent:
                raise _error(request, "expected one parent of the session, found another one on an earlier request")
    tops = _tops(requests, parents)
    for child, starter in parents.items():
        sessions[starter].children.append(sessions[child])
    runs: dict[SessionId, list[Session]] = {}
    for id_, session in sessions.items():
        top = tops.get(id_, id_)
        runs.setdefault((top[0], "") if top[0] else top, []).append(session)
    return [_run(key, members, tops) for key, members in runs.items()]


def _tops(requests: Sequence[Request], parents: dict[SessionId, SessionId]) -> dict[SessionId, SessionId]:
    """Return the first ancestor of each session that has a parent."""
    tops: dict[SessionId, SessionId] = {}
    for request in requests:
        if request.identity is None:
            continue
        way: dict[SessionId, None] = {}
        at = request.identity.session
        while at in parents and at not in tops:
            if at in way:
                raise _error(request, "expected a session that nobody started, found a circle of parents")
            way[at] = None
            at = parents[at]
        top = tops.get(at, at)
        tops.update(dict.fromkeys(way, top))
    return tops


def _run(key: SessionId, members: list[Session], tops: dict[SessionId, SessionId]) -> Run:
    """Return a run whose root is the first of the sessions that nobody started; the others count as started by it.

    An ancestor that has no requests is passed over where it started but one session.
    """
    roots = [session for session in members if session.id not in tops]
    root = min(roots, key=lambda session: session.requests[:1] or [-1])
    root.children += (session for session in roots if session is not root)
    while not root.requests and len(root.children) == 1:
        root = root.children[0]
    return Run(key[0] or key[1], root, tuple(members))


def _error(request: Request, message: str) -> TraceError:
    return TraceError(message, line=request.line, field="agent_context")
