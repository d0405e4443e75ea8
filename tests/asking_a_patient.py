"""An asker of a server of the doctor's tests, and what is known of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from doctor_server import Patient
from raw_server import Handler, serving

from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.doctor.asking import Asker
from rotoscope.replayer.doctor.checks import Known
from rotoscope.replayer.doctor.wire import Wire
from rotoscope.replayer.server import Server, api_url
from rotoscope.replayer.tokens import Vocabulary

VOCABULARY = Vocabulary(1000, 30_000)


@asynccontextmanager
async def asking(
    patient: Patient,
    others: Mapping[str, Handler] | None = None,
    *,
    engine: str = "vllm",
    known: Mapping[str, Any] | None = None,
) -> AsyncIterator[tuple[Asker, Known]]:
    """Serve the patient, with other handlers by path; `known` is what is known already."""
    server = Server("m", engine=ENGINES[engine])
    async with serving(patient.handlers(others)) as url, aiohttp.ClientSession() as http:
        asker = Asker(
            Wire(http, api_url(url), timeout_s=60.0), model="m", vocabulary=VOCABULARY, engine=ENGINES[engine]
        )
        yield asker, Known(server, **(known or {}))
