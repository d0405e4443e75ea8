"""Evidence for gates of validity, made of few results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer.gates.evidence import Evidence
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.replayer.sent import Origin
from rotoscope.replayer.server_metrics.counts import Growth, ServerMetrics
from rotoscope.replayer.summary import summarise
from rotoscope.replayer.token_streams import CallName


def evidence_of(
    requests: Sequence[RequestResult] | None = None,
    *,
    sessions: Sequence[SessionResult] | None = None,
    optimal: Sequence[int] | None = None,
    counted: Growth | None = None,
    server: ServerMetrics | None = None,
    origins: Mapping[CallName, Origin] | None = None,
    shared_tokens: int = 0,
    interrupted: bool = False,
    **setup: Any,
) -> Evidence:
    """Return the evidence of a run; without anything, of four sessions and an answered request.

    Unless `origins` are given, no prompt begins like another.
    """
    requests = [make_request_result()] if requests is None else requests
    summary = summarise(
        make_setup(**setup),
        requests=requests,
        optimal_tokens=[50] * len(requests) if optimal is None else optimal,
        sessions=[make_session_result(number) for number in range(4)] if sessions is None else sessions,
        planned_requests=len(requests),
        without_ids=0,
        interrupted=interrupted,
        duration_s=40.0,
        counted=counted,
    )
    if origins is None:
        beginning = Origin(call=None, shared=0, own_tokens=100, prompt_tokens=100)
        origins = {CallName(one.session, one.call): beginning for one in requests}
    return Evidence(summary=summary, server=server, origins=origins, shared_tokens=shared_tokens)


def counted_as(prompt: float, cached: float | None, **fields: Any) -> Growth:
    """Return what a server counts."""
    told: dict[str, Any] = {"family": "vllm", "unit": "tokens", "restarted": False, "external_cached": None}
    told |= {"output_tokens": None, "preemptions": None, "prompt": prompt, "cached": cached}
    return Growth(**told | fields)
