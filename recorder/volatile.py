"""Lines of a prompt that change by themselves, such as billing headers and dates: the same text with them left blank.

Where they change within a run, the prompts behind them share nothing with earlier ones, though nothing was said anew.
Blanked are the value of Claude Code's billing header, dates and times in messages of the system, and in those of the
user where a line says that it tells them.
"""

from __future__ import annotations

import re

from rotoscope.recorder.canonical import Part

_BLANK = b"0"
_BILLING = re.compile(rb'(x-anthropic-billing-header:)[^"\\\n]*')
_MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DATE_OR_TIME = re.compile(
    rb"\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:?\d{2})?"
    rb"|\b\d{1,2}[./]\d{1,2}[./]\d{4}\b"
    rb"|\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?(?:%b \d{1,2}(?:st|nd|rd|th)?,? \d{4}|\d{1,2} %b,? \d{4}\b)"
    rb"|\b\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp][Mm])?\b" % (_MONTH, _MONTH)
)
_ANNOUNCED = re.compile(
    rb"((?:today(?:'s|\xe2\x80\x99s)? (?:date )?is|(?:current|today's) (?:date|time)(?: and time)?)\b)([^\"\\\n]*)",
    re.IGNORECASE,
)
_TOLD = re.compile(_DATE_OR_TIME.pattern + rb"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b")

_YEAR_OR_TIME = re.compile(rb"\d\d\d\d|\d:\d\d")
"""Stands in every date and time; looking for it alone is quick."""


def blanked(part: Part) -> bytes | None:
    """Return the exact form of a part with what changes by itself left blank; None when nothing does."""
    exact = part.exact
    if part.role == "system":
        if b"billing" in exact:
            exact = _BILLING.sub(rb"\1", exact)
        if _YEAR_OR_TIME.search(exact):
            exact = _DATE_OR_TIME.sub(_BLANK, exact)
    elif part.role == "user" and (b"oday" in exact or b"urrent" in exact):
        exact = _ANNOUNCED.sub(lambda line: line[1] + _TOLD.sub(_BLANK, line[2]), exact)
    return None if exact == part.exact else exact
