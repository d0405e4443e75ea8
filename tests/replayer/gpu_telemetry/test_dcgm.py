from __future__ import annotations

from pathlib import Path

import pytest

from rotoscope.replayer.gpu_telemetry.dcgm import read_gpus
from rotoscope.replayer.gpu_telemetry.readings import Reading
from rotoscope.replayer.server_metrics.samples import NotPrometheus

TEXT = (Path(__file__).parents[2] / "data/metrics/dcgm.txt").read_text()


def line(field: str, value: object, *, gpu: int = 0, host: str = "a", more: str = "") -> str:
    return f'DCGM_FI_DEV_{field}{{gpu="{gpu}",UUID="GPU-{host}-{gpu}",Hostname="{host}"{more}}} {value}\n'


def test_each_gpu_tells_its_fields_in_plain_units() -> None:
    gpus = read_gpus(TEXT)

    assert [gpus[key] for key in sorted(gpus)] == [
        Reading(
            power_w=412.25,
            energy_j=5551899580 * 1e-3,
            utilisation=97 * 1e-2,
            memory_mib=131072.0,
            temperature_c=61.0,
            xid=0,
        ),
        Reading(
            power_w=388.5,
            energy_j=5551000500 * 1e-3,
            utilisation=93 * 1e-2,
            memory_mib=130560.0,
            temperature_c=58.0,
            xid=63,
        ),
    ]


def test_a_field_that_is_missing_is_not_told() -> None:
    (only,) = read_gpus(line("POWER_USAGE", 70.5)).values()

    assert only == Reading(power_w=70.5)


@pytest.mark.parametrize("blank", ["9223372036854775794", "140737488355328.000000", "2147483632", "NaN", "-1"])
@pytest.mark.parametrize("field", ["POWER_USAGE", "GPU_UTIL", "FB_USED", "GPU_TEMP", "XID_ERRORS"])
def test_what_dcgm_says_for_no_value_is_none(field: str, blank: str) -> None:
    text = line(field, blank) + line("TOTAL_ENERGY_CONSUMPTION", "9223372036854775794") + line("GPU_TEMP", 40, gpu=1)

    assert [*read_gpus(text).values()] == [Reading(temperature_c=40.0)]


def test_gpus_are_in_the_order_of_hosts_and_numbers() -> None:
    text = "".join(line("GPU_TEMP", number, gpu=gpu, host=host) for number, gpu, host in ((3, 2, "b"), (2, 10, "a")))
    gpus = read_gpus(text + line("GPU_TEMP", 1, gpu=9, host="a"))

    assert [gpus[key].temperature_c for key in sorted(gpus)] == [1.0, 2.0, 3.0]


def test_parts_of_a_gpu_are_one_whose_fullest_part_counts() -> None:
    parts = line("FB_USED", 100, more=',GPU_I_ID="3"') + line("FB_USED", 300, more=',GPU_I_ID="5"')

    assert [one.memory_mib for one in read_gpus(parts).values()] == [300.0]


def test_what_is_no_exporter_tells_of_no_gpu() -> None:
    assert read_gpus("<html></html>") == {}
    assert read_gpus("vllm:num_requests_running 1\n") == {}


def test_a_line_that_is_none_is_refused() -> None:
    with pytest.raises(NotPrometheus):
        read_gpus("DCGM_FI_DEV_POWER_USAGE{ broken\n")
