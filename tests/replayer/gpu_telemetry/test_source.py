from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from event_loops import in_event_loop
from fake_nvml import FakeNvml
from raw_server import serving
from yarl import URL

from rotoscope.replayer.gpu_telemetry.source import dcgm_url, gpu_source, is_loopback
from rotoscope.traces import RunFailed, UnusableInput

TEXT = (Path(__file__).parents[2] / "data/metrics/dcgm.txt").read_text()
HERE = URL("http://127.0.0.1:8000/v1")
ELSEWHERE = URL("http://192.0.2.7:8000/v1")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:9400", "http://127.0.0.1:9400/metrics"),
        ("http://node:9400/", "http://node:9400/metrics"),
        ("https://node/gpus/metrics", "https://node/gpus/metrics"),
    ],
)
def test_an_exporter_is_named_with_or_without_the_path(text: str, url: str) -> None:
    assert str(dcgm_url(text)) == url


@pytest.mark.parametrize("text", ["ftp://node", "http://", "http://node:port"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="is no URL"):
        dcgm_url(text)


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.8.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.0.2.7/v1", False),
        ("http://example.org/v1", False),
    ],
)
def test_this_machine_is_known_by_its_address(url: str, is_here: bool) -> None:
    assert is_loopback(URL(url)) == is_here


@in_event_loop
async def test_an_exporter_that_is_named_is_asked_and_a_failure_on_the_way_leaves_a_gap() -> None:
    texts = [TEXT, TEXT.replace(" 412.25", " 500.5"), "", "DCGM_FI_DEV_POWER_USAGE{ broken", None]

    async def exporter(request: web.Request) -> web.StreamResponse:
        assert "Authorization" not in request.headers
        text = texts.pop(0)
        return web.Response(status=503) if text is None else web.Response(text=text)

    async with (
        serving({"/metrics": exporter}) as url,
        gpu_source(url, ELSEWHERE, simulated=False, nvml=nobody_asks) as gpus,
    ):
        assert gpus is not None
        assert (gpus.teller, len(gpus.start)) == ("dcgm", 2)
        looks = [await gpus.read() for _ in range(4)]

    assert [None if look is None else look[min(look)].power_w for look in looks] == [500.50, None, None, None]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [({"status": 404}, "status 404"), ({"text": "<html>"}, "no GPU tells anything")],
)
@in_event_loop
async def test_an_exporter_that_tells_of_no_gpu_fails_before_the_run(reply: dict[str, Any], reason: str) -> None:
    async def exporter(request: web.Request) -> web.StreamResponse:
        return web.Response(**reply)

    async with serving({"/metrics": exporter}) as url:
        with pytest.raises(RunFailed, match=f"cannot read the GPUs at .*: {reason}: correct --dcgm"):
            async with gpu_source(url, HERE, simulated=False):
                pass


def nobody_asks() -> Any:
    raise AssertionError("the driver of this machine was asked")


@in_event_loop
async def test_the_driver_is_asked_for_a_real_server_on_this_machine_only() -> None:
    async with gpu_source(None, HERE, simulated=False, nvml=FakeNvml) as gpus:
        assert gpus is not None
        assert gpus.teller == "nvml"
    async with gpu_source(None, ELSEWHERE, simulated=False, nvml=nobody_asks) as gpus:
        assert gpus is None
    async with gpu_source(None, HERE, simulated=True, nvml=nobody_asks) as gpus:
        assert gpus is None
    async with gpu_source(None, HERE, simulated=False, nvml=lambda: None) as gpus:
        assert gpus is None
