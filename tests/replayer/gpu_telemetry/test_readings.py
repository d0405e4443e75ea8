from __future__ import annotations

from dataclasses import fields

from rotoscope.replayer.gpu_telemetry.readings import GpuSample, Reading


def test_a_sample_has_a_field_for_all_that_a_gpu_tells_and_none_for_who_it_is() -> None:
    assert {one.name for one in fields(GpuSample)} == {"at_s", "gpu"} | {one.name for one in fields(Reading)}
    assert all("str" not in str(one.type) for one in fields(GpuSample))
