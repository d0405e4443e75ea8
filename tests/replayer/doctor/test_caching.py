from __future__ import annotations

from typing import Any

import pytest
from asking_a_patient import asking
from doctor_server import Patient
from event_loops import in_event_loop
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.doctor.caching import block_size_of, check_caching
from rotoscope.replayer.doctor.checks import Check, Known


async def checked(patient: Patient, **known: Any) -> tuple[dict[str, Check], Known]:
    async with asking(patient, known={"returns_ids": True} | known) as (asker, found):
        return {check.name: check for check in await check_caching(asker, found)}, found


@pytest.mark.parametrize("block_size", [1, 2, 8, 16, 32, 48, 64, 128, 256, 512])
@in_event_loop
async def test_the_block_size_is_found(block_size: int) -> None:
    checks, known = await checked(Patient(block_size=block_size))

    assert checks["cached tokens"].verdict == "ok" or block_size == 512
    assert known.block_size == block_size


@pytest.mark.parametrize("block_size", [1, 16, 128])
@pytest.mark.parametrize("keeps", [True, False])
@in_event_loop
async def test_whether_outputs_are_kept_is_found(block_size: int, keeps: bool) -> None:
    checks, known = await checked(Patient(block_size=block_size, keeps_outputs=keeps))

    assert known.decode_reuse is keeps
    assert checks["decode reuse"].seen.startswith("kept" if keeps else "not kept")


@in_event_loop
async def test_a_short_context_is_enough() -> None:
    patient = Patient(context_tokens=300)
    _, known = await checked(patient, context_tokens=300)

    assert (known.block_size, known.decode_reuse) == (16, True)


@in_event_loop
async def test_a_context_of_nothing_is_not_tried() -> None:
    checks, _ = await checked(Patient(), context_tokens=100)

    assert {check.verdict for check in checks.values()} == {"none"}


@pytest.mark.parametrize(
    ("told", "verdict", "says"),
    [
        (lambda cached: None, "warn", "not reported"),
        (lambda cached: cached or None, "ok", "1,984 of 2,000 repeated"),
        (lambda cached: 0, "warn", "0 of 2,000 repeated"),
        (lambda cached: 1984, "fail", "1,984 of a fresh prompt"),
        (lambda cached: cached and 2000, "warn", "2,000 of 2,000 repeated"),
        (lambda cached: cached // 4, "warn", "496 of 2,000 repeated"),
    ],
    ids=["nothing", "no zeros", "zero", "always", "too many", "a part"],
)
@in_event_loop
async def test_what_is_told_of_a_fresh_prompt_and_its_repeat_is_judged(told: Any, verdict: str, says: str) -> None:
    checks, _ = await checked(Patient(told_cached=told))

    assert checks["cached tokens"].verdict == verdict
    assert says in checks["cached tokens"].seen


@in_event_loop
async def test_behind_a_router_the_prompt_is_repeated_until_it_is_found() -> None:
    answers = iter([0, 0, 1984])
    checks, _ = await checked(Patient(told_cached=lambda cached: next(answers, cached)))

    assert checks["cached tokens"].verdict == "ok"


@in_event_loop
async def test_counts_that_follow_no_block_size_are_told() -> None:
    checks, known = await checked(Patient(told_cached=lambda cached: cached and cached - 7))

    assert checks["block size"].verdict == "warn"
    assert known.block_size is None


@in_event_loop
async def test_without_ids_of_outputs_nothing_is_sent_back() -> None:
    checks, known = await checked(Patient(), returns_ids=False)

    assert (checks["decode reuse"].verdict, known.decode_reuse) == ("none", None)


@given(st.integers(1, 512), st.integers(600, 5000))
def test_a_block_size_explains_what_it_made(size: int, length: int) -> None:
    power = 1 << ((length - 1).bit_length() - 1)
    found = [(shared, shared // size * size) for shared in (length - 1, power - 1, power // 4 * 3 - 1)]

    smallest = block_size_of(found)
    assert smallest is not None
    assert all(shared // smallest * smallest == cached for shared, cached in found)
    if size & (size - 1) == 0 and size <= power // 4:
        assert smallest == size
