"""One request and its answer as they pass: bytes in, bytes to forward out, and journal records at the end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from rotoscope.recorder.canonical import Part
from rotoscope.recorder.dialects.answer import Answer
from rotoscope.recorder.dialects.output import Output
from rotoscope.recorder.json_list import ListFilter
from rotoscope.recorder.reading import Asked
from rotoscope.recorder.run import Run
from rotoscope.recorder.sse import EventFilter
from rotoscope.recorder.usage import Usage
from rotoscope.traces.journal import CallEnded, CallMeasured, DialectName, JournalRecord, OutputMeasured
from rotoscope.traces.model import FinishReason

_LARGEST_ANSWER_BYTES = 64 << 20
"""An answer that is longer than this in one piece is forwarded, but not recorded."""


class Exchange:
    """One request and its answer; this one only forwards."""

    def __init__(self, upstream_body: bytes) -> None:
        self.upstream_body = upstream_body
        """What to send upstream."""

    def take_back(self) -> None:
        """Tell that the request is sent as it came, because the server refuses what was added to it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def recorded(self) -> bool:
        """Whether this call goes into the trace."""
        return False

    @property
    def listens(self) -> bool:
        """Whether it has to hear the answer, as plain text."""
        return self.recorded

    @property
    def measurable(self) -> DialectName | None:
        """The dialect of a prompt whose token ids may be asked for; None where it has none, or none of its own."""
        return None

    def response(self, status: int, *, at_s: float, content_type: str = "") -> None:
        """Tell that the answer begins."""

    def chunk(self, data: bytes, *, at_s: float) -> bytes:
        """Take in bytes of the answer as they arrive and return those to forward."""
        return data

    def end(self, *, at_s: float) -> bytes:
        """Tell that the answer has ended and return the last bytes to forward."""
        return b""

    def cancelled(self, *, at_s: float) -> None:
        """Tell that the client hung up."""

    def failed(self, *, at_s: float) -> None:
        """Tell that the upstream broke off, or could not be reached."""

    def measured(self, ids: Sequence[int] | None) -> None:
        """Take in the token ids of the prompt, None when they cannot be had."""


class RecordedExchange(Exchange):
    """One request whose calls are recorded."""

    def __init__(
        self,
        run: Run,
        upstream_body: bytes,
        *,
        came: bytes,
        asked: Asked,
        calls: range,
        at_s: float,
    ) -> None:
        """Record calls; `upstream_body` is the body that `came`, or asks for more."""
        super().__init__(upstream_body)
        self._run = run
        self._came = came
        self._asked = asked
        self._was_measured = bool(asked.ids)
        self._ids = asked.ids
        """They live until the call is closed, as its text does."""
        self._calls = calls
        self._at_s = at_s
        self._now_s = at_s
        self._status = 0
        self._answer: Answer | None = asked.dialect.answer(len(calls))
        self._filter: EventFilter | ListFilter | None = None
        self._whole: list[bytes] = []
        self._whole_bytes = 0
        self._is_given_up = False
        self._done_at_s: float | None = None
        self._is_written = False
        if asked.echoed:
            for index, output in enumerate(self._answer.outputs):
                output.echoed = asked.echoed[index // asked.choices]
            self._asked = replace(asked, echoed=())
        if asked.ids:
            self._asked = replace(self._asked, ids=())
            self._measure(asked.ids)

    @property
    def recorded(self) -> bool:
        return True

    def take_back(self) -> None:
        self.upstream_body = self._came
        self._asked = replace(self._asked, is_without_usage=False)

    @property
    def measurable(self) -> DialectName | None:
        asked = self._asked
        is_whole = len(asked.heads) == 1 and asked.previous is None and not asked.is_opaque
        return asked.dialect.name if is_whole and not self._was_measured else None

    def response(self, status: int, *, at_s: float, content_type: str = "") -> None:
        self._status = status
        kind = content_type.partition(";")[0].strip().lower()
        is_asked_for = self._asked.is_stream and status == 200 and not kind.endswith("json")
        if kind == "text/event-stream" or is_asked_for:
            self._filter = EventFilter(self._take, withholds=self._asked.is_without_usage)
        elif self._asked.is_stream and self._asked.dialect.streams_lists and status == 200:
            self._filter = ListFilter(self._take)

    def chunk(self, data: bytes, *, at_s: float) -> bytes:
        if self._answer is None:
            return data
        self._now_s = at_s
        if self._filter is None:
            return self._keep(data)
        held = self._filter.held
        try:
            forward = self._filter.feed(data)
            if self._done_at_s is None and self._answer.is_done:
                self._be_done(self._answer, at_s)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._give_up(error)
            return held + data
        return forward

    def end(self, *, at_s: float) -> bytes:
        if self._answer is None:
            self._end_given_up(at_s)
            return b""
        held = self._filter.held if self._filter else b""
        try:
            self._now_s = at_s
            rest = self._filter.finish() if self._filter else b""
            self._close(at_s)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._give_up(error)
            self._end_given_up(at_s)
            return held
        return rest

    def cancelled(self, *, at_s: float) -> None:
        self._break_off(at_s, "cancelled")

    def failed(self, *, at_s: float) -> None:
        self._break_off(at_s, "error")

    def measured(self, ids: Sequence[int] | None) -> None:
        if not ids or self._run.is_closed:
            return
        self._measure([ids])

    def _measure(self, prompts: Sequence[Sequence[int]]) -> None:
        try:
            self._run.write([record for number, ids in enumerate(prompts) for record in self._measured(ids, number)])
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._run.report("a measured prompt", error)

    def _measured(self, ids: Sequence[int], prompt: int) -> list[CallMeasured]:
        """Measure a prompt of the request, by its number; its choices have it in common."""
        first, *others = self._calls[prompt * self._asked.choices : (prompt + 1) * self._asked.choices]
        of, tokens = self._run.measured(self._asked.domain).add(first, ids)
        return [
            CallMeasured(call=first, of=of, tokens=tokens, prompt_tokens=len(ids)),
            *(CallMeasured(call=call, of=first, tokens=len(ids), prompt_tokens=len(ids)) for call in others),
        ]

    def _take(self, data: bytes) -> bool:
        assert self._answer is not None
        return self._answer.take_event(data, self._now_s)

    def _be_done(self, answer: Answer, at_s: float) -> None:
        """Take a stream for ended when its terminal event has come: the client may go on from it before its bytes end."""
        self._done_at_s = at_s
        if answer.usage is not None and self._asked.dialect.has_terminal_event:
            self._write_end(answer, at_s, None)  # before the client has it all, so that no kill can lose the call
            return
        is_named = answer.response_id or self._asked.conversation or any(x.tool_ids for x in answer.outputs)
        if self._run.is_closed or not is_named:
            return
        last = None
        for index, output in enumerate(answer.outputs):
            known = self._known(index, self._part(output))
            last = known if index == 0 else last
            self._run.reader.answered(self._asked, self._calls[index], index, known, output)
        self._respond(answer, last)

    def _respond(self, answer: Answer, part: int | None) -> None:
        """Tell what later requests may go on from; a refused request is nothing that they may."""
        if not 200 <= self._status < 300:
            return
        behind = self._asked.head(0) if part is None else part
        is_whole = answer.is_done and not answer.is_error
        self._run.reader.responded(self._asked, self._calls[0], behind, answer.response_id, is_whole=is_whole)

    def _part(self, output: Output) -> Part:
        return output.sent_back_as_ids() if self._ids else output.sent_back()

    def _known(self, output: int, part: Part) -> int | None:
        """Return the part that an output is behind its prompt; None where it is empty."""
        if not part.text_bytes and not part.reasoning_bytes:
            return None
        return self._run.parts.behind(self._asked.head(output), part)

    def _keep(self, data: bytes) -> bytes:
        self._whole_bytes += len(data)
        if self._whole_bytes <= _LARGEST_ANSWER_BYTES:
            self._whole.append(data)
        return data

    def _break_off(self, at_s: float, reason: FinishReason) -> None:
        if self._answer is None:
            self._end_given_up(at_s)
            return
        try:
            self._close(at_s, None if self._answer.is_done else reason)  # who leaves after the end has it all
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._give_up(error)
            self._end_given_up(at_s)

    def _give_up(self, error: Exception) -> None:
        self._forget()
        self._ids = ()
        self._is_given_up = not self._is_written
        self._run.report("a call", error)

    def _end_given_up(self, at_s: float) -> None:
        """Let calls end of whose answer nothing is known: those that never end run beside all that follows."""
        if not self._is_given_up or self._run.is_closed:
            return
        self._is_given_up = False
        try:
            at_ms = self._run.ms(at_s)
            self._run.write(
                [CallEnded(call=x, at_ms=at_ms, finish_reason="unknown", status=self._status) for x in self._calls]
            )
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._run.report("a call", error)

    def _forget(self) -> None:
        self._answer = None
        self._filter = None
        self._whole.clear()

    def _close(self, at_s: float, reason: FinishReason | None = None) -> None:
        answer = self._answer
        assert answer is not None
        if self._filter is None and reason is None:
            answer.take_whole(b"".join(self._whole), self._now_s)
        self._forget()
        if answer.unread and self._status < 400:
            self._run.warn("part of an answer is no JSON and was not recorded")
        self._write_end(answer, at_s if self._done_at_s is None else self._done_at_s, reason)
        self._ids = ()

    def _write_end(self, answer: Answer, at_s: float, reason: FinishReason | None) -> None:
        """Write down once how the calls ended."""
        if not (self._run.is_closed or self._is_written):
            records = self._ended(answer, at_s, reason)
            self._is_written = True
            self._run.write(records)

    def _ended(self, answer: Answer, at_s: float, reason: FinishReason | None) -> list[JournalRecord]:
        parts = [self._part(output) for output in answer.outputs]
        usage = self._delivered(answer.usage or Usage())
        shares = _shares(usage.completion_tokens, [part.text_bytes + part.reasoning_bytes for part in parts])
        prompts = self._prompt_tokens(usage.prompt_tokens)
        records: list[JournalRecord] = []
        for index, (output, part, share) in enumerate(zip(answer.outputs, parts, shares, strict=True)):
            call = self._calls[index]
            output_bytes = part.text_bytes + part.reasoning_bytes
            known = self._known(index, part)
            is_split = len(parts) > 1
            self._run.reader.answered(self._asked, call, index, known, output)
            records.append(
                CallEnded(
                    call=call,
                    at_ms=self._run.ms(at_s),
                    finish_reason=reason or self._finish_reason(answer, output),
                    status=self._status,
                    ttft_ms=self._since_request_ms(output.first_at_s),
                    prompt_tokens=prompts[index // self._asked.choices],
                    completion_tokens=share,
                    reasoning_tokens=None if is_split else usage.reasoning_tokens,
                    cached_tokens=None if index else usage.cached_tokens,
                    media_tokens=usage.media_tokens,
                    output_bytes=output_bytes,
                    reasoning_bytes=part.reasoning_bytes,
                    alike_bytes=output.alike_bytes(),
                    chunks=output.chunks,
                    answer=known,
                    tools=tuple(self._run.tool(name) for name in output.tool_names),
                    is_split=is_split,
                    is_prompt_split=len(prompts) > 1 and prompts is not self._asked.lengths,
                )
            )
        records.extend(self._measured_outputs(answer))
        last = records[0]
        assert isinstance(last, CallEnded)
        self._respond(answer, last.answer)
        return records

    def _delivered(self, usage: Usage) -> Usage:
        """Return a usage without the count of outputs, where others than those that were delivered are in it."""
        if not self._asked.has_drafts:
            return usage
        self._run.warn("outputs that a server made and did not give (best_of) are not in the trace")
        return replace(usage, completion_tokens=None, reasoning_tokens=None)

    def _measured_outputs(self, answer: Answer) -> list[JournalRecord]:
        """Measure the outputs whose token ids came, behind prompts of token ids."""
        records: list[JournalRecord] = []
        for call, output, ids in zip(self._calls, answer.outputs, self._ids_of_outputs(), strict=False):
            if output.token_ids:
                stream = array("I", ids) + array("I", output.token_ids)
                self._run.measured(self._asked.domain).add(call, stream)
                records.append(OutputMeasured(call=call, stream_tokens=len(stream)))
        return records

    def _ids_of_outputs(self) -> list[Sequence[int]]:
        """Return the ids of the prompt of each output; none where prompts are no ids."""
        return [ids for ids in self._ids for _ in range(self._asked.choices)]

    def _prompt_tokens(self, counted: int | None) -> Sequence[int | None]:
        """Share out what a server counted over the prompts of a request; those of token ids have their lengths."""
        lengths = self._asked.lengths
        if len(lengths) == 1:
            return [counted]
        is_known = bool(self._ids) and counted in (None, sum(lengths))
        return lengths if is_known else [share or None for share in _shares(counted, list(lengths))]

    def _finish_reason(self, answer: Answer, output: Output) -> FinishReason:
        if answer.is_error or self._status >= 400:
            return "error"
        if output.finish_reason == "unknown" and not answer.is_done:
            return "error"
        return output.finish_reason

    def _since_request_ms(self, at_s: float | None) -> float | None:
        return None if at_s is None else max(0.0, round((at_s - self._at_s) * 1000, 3))


def _shares(total: int | None, sizes: list[int]) -> list[int | None]:
    """Share out a sum of tokens by size; the shares add up."""
    if total is None or len(sizes) == 1:
        return [total] * len(sizes)
    weights = [size + 1 for size in sizes]
    shares: list[int | None] = []
    left, left_weight = total, sum(weights)
    for weight in weights:
        share = round(left * weight / left_weight)
        shares.append(share)
        left, left_weight = left - share, left_weight - weight
    return shares
