"""The records of a vllm-vcr trace as they stand in the file: typed and checked, token ids left behind.

The first line may hold `{"meta": ...}`; every other line is a request that an engine has finished, in the order in which
they ended. Read from `crates/sim-trace/src/trace.rs` of neuralmagic/vllm-vcr at 4b460a1. Its hashes stand for everything
up to the end of a block, whole blocks only, and know nothing of images; those have hashes of their own, without a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.block_hashes import block_hashes
from rotoscope.traces.formats.fields import MAX_TIME_MS, Fields, Notes
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import FinishReason

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "abort": "cancelled",
    "error": "error",
    "repetition": "unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A request that has ended."""

    line: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    arrival_ms: float | None
    ttft_ms: float
    duration_ms: float | None
    """None where the file does not tell how long the tokens behind the first took."""
    block_ids: Sequence[int] | None
    """One a whole block."""
    images: tuple[str, ...]
    """Only to tell them apart."""
    finish_reason: FinishReason


@dataclass(slots=True)
class Records:
    """What a file holds."""

    records: list[Record] = field(default_factory=list)
    block_size: int | None = None
    token_ids: int = 0
    """Records that hold the ids of what was generated."""
    notes: Notes = field(default_factory=Notes)


_KEYS = frozenset(
    (
        *("prompt_tokens", "cached_tokens", "output_tokens", "ttft_ms", "itl_ms", "itl_tokens", "itl_summary"),
        *("concurrency", "arrival_ms", "itl_ctx", "block_hashes", "mm_hashes", "output_token_ids", "finish_reason"),
    )
)


def read_records(source: Source) -> Records:
    """Read all records; raise TraceError, with file and line, where one is damaged."""
    records = Records()
    is_first = True
    for line, value in source.lines():
        try:
            fields = Fields.of(value, line=line)
            if is_first and "meta" in fields:
                meta = fields.inner("meta")
                records.block_size = meta.count("block_size", least=1) if "block_size" in meta else None
            else:
                records.records.append(_record(fields, line, records))
        except TraceError as error:
            raise error.at(source.name, line=line) from error.__cause__
        is_first = False
    return records


def _record(fields: Fields, line: int, records: Records) -> Record:
    records.notes.left_out(fields, {}, _KEYS)
    records.token_ids += "output_token_ids" in fields
    prompt_tokens = fields.count("prompt_tokens")
    ttft_ms = fields.milliseconds("ttft_ms")
    completion_tokens = fields.count("output_tokens")
    return Record(
        line=line,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=fields.count_or("cached_tokens", 0),
        arrival_ms=fields.optional_milliseconds("arrival_ms"),
        ttft_ms=ttft_ms,
        duration_ms=_duration_ms(fields, ttft_ms, completion_tokens),
        block_ids=_block_ids(fields, prompt_tokens, records.block_size),
        images=fields.texts("mm_hashes"),
        finish_reason=_finish_reason(fields),
    )


def _duration_ms(fields: Fields, ttft_ms: float, completion_tokens: int) -> float | None:
    """Return from arrival to the last token: the first one and the gaps behind it."""
    gaps_ms = _gaps_ms(fields)
    if gaps_ms is None:
        return ttft_ms if completion_tokens <= 1 else None
    if ttft_ms + gaps_ms > MAX_TIME_MS:
        raise fields.error(
            "itl_ms" if "itl_ms" in fields else "itl_summary", f"expected at most {MAX_TIME_MS:.1e} in all"
        )
    return ttft_ms + gaps_ms


def _gaps_ms(fields: Fields) -> float | None:
    if "itl_ms" in fields:
        gaps = fields.items("itl_ms")
        for index, gap in enumerate(gaps):
            if type(gap) not in (int, float) or not 0 <= gap <= MAX_TIME_MS:
                raise fields.error(f"itl_ms[{index}]", f"expected a number from 0 to {MAX_TIME_MS:.1e}")
        return float(sum(gaps))
    if "itl_summary" in fields:
        summary = fields.inner("itl_summary")
        return summary.milliseconds("mean_ms") * summary.count("count")
    return None


def _block_ids(fields: Fields, prompt_tokens: int, block_size: int | None) -> Sequence[int] | None:
    if "block_hashes" not in fields:
        return () if block_size is not None and prompt_tokens < block_size else None
    if block_size is None:
        raise fields.error("block_hashes", "expected a block_size in the meta line at the top of the file")
    blocks = prompt_tokens // block_size
    return block_hashes(fields, "block_hashes", prompt_tokens=prompt_tokens, blocks=blocks)


def _finish_reason(fields: Fields) -> FinishReason:
    if "finish_reason" not in fields:
        return "unknown"
    given = fields.text("finish_reason")
    if given not in _FINISH_REASONS:
        raise fields.error("finish_reason", f"expected one of {', '.join(_FINISH_REASONS)}")
    return _FINISH_REASONS[given]
