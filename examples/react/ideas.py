"""What the scripted model knows of the faults: how it explains and repairs them, and how it goes wrong at first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from examples.tasks import load_tasks

from .faults import FAULTS, Fault

TEST_ALL = "python -m unittest discover tests"


@dataclass(frozen=True)
class Idea:
    """What the model finds in one module of the toy repository, and its two ideas of a repair."""

    name: str
    """That of the fault."""
    cause: str
    first_try: str
    """A repair that some of the module's tests refuse."""
    correction: str
    """What was wrong with the first try."""
    called: str
    """What a search for its callers looks for."""
    probe: str
    """A Python expression that shows the fault."""

    @property
    def fault(self) -> Fault:
        return FAULTS[self.name]

    @property
    def module(self) -> str:
        return self.fault.module

    @property
    def path(self) -> str:
        return self.fault.path

    @property
    def test_path(self) -> str:
        return test_path(self.module)

    @property
    def test_command(self) -> str:
        return test_command(self.module)

    @property
    def found(self) -> str:
        return self.fault.faulty

    @property
    def repair(self) -> str:
        return self.fault.sound

    @property
    def probe_command(self) -> str:
        return f"python -c 'from tally.{self.module} import *; print({self.probe})'"


def test_path(module: str) -> str:
    return f"tests/test_{module}.py"


def test_command(module: str) -> str:
    return f'{TEST_ALL} -p "test_{module}.py"'


IDEAS = (
    Idea(
        "money-sign",
        cause="The sign belongs to the whole amount, but only the part before the point carries it, so that the cents "
        "of a negative amount are added in the wrong direction.",
        first_try="    sign = -1 if int(whole) < 0 else 1\n    return int(whole) * 100 + sign * cents\n",
        correction="An amount like -0.50 has a whole part of zero, and zero has no sign. The sign has to come from the "
        "text.",
        called="parse_amount",
        probe='[parse_amount(a) for a in ("3.20", "-3.20", "-0.50")]',
    ),
    Idea(
        "money-cents",
        cause="Division rounds down, away from zero for a negative amount, while the sign is written by itself: the amount "
        "has to be divided without it.",
        first_try="    whole, fraction = int(cents / 100), cents % 100\n",
        correction="The whole part is cut towards zero now, but the remainder still counts up from the number below. Both "
        "have to come from the amount without its sign.",
        called="format_amount",
        probe="[format_amount(c) for c in (320, -320, -50)]",
    ),
    Idea(
        "journal-comment",
        cause="The comment is cut off at the first number sign, also when that stands inside quotation marks.",
        first_try='    return line.partition(" #")[0]\n',
        correction="A space before the number sign proves nothing, a description has spaces too, and a line may begin "
        "with a comment. The quotation marks have to be counted.",
        called="strip_comment",
        probe="repr(strip_comment(chr(34) + chr(35) + chr(34)))",
    ),
    Idea(
        "journal-order",
        cause="The expenses are returned in the order of the lines, and the docstring promises the oldest first.",
        first_try="    return sorted(expenses, key=lambda expense: (expense.day, expense.payer))\n",
        correction="Expenses of one day keep the order in which they stand, so the payer must not decide anything.",
        called="read_journal",
        probe='[str(e.day) for e in read_journal(["2024-03-02 ben 1.00 \\"b\\"", "2024-03-01 anna 1.00 \\"a\\""])]',
    ),
    Idea(
        "recurring-day",
        cause="Each day is computed from the one before, so that a day which was cut to the end of a short month never "
        "comes back to where it started.",
        first_try=FAULTS["recurring-day"].faulty
        + "        if first.day == 31:\n"
        + "            day = day.replace(day=monthrange(day.year, day.month)[1])\n",
        correction="That helps the 31st only; the 30th is lost in February all the same. Each day has to be counted from "
        "the first one.",
        called="occurrences",
        probe="[str(d) for d in occurrences(date(2024, 1, 31), Recurrence(months=1), until=date(2024, 5, 1))]",
    ),
    Idea(
        "recurring-month",
        cause="A day that the month does not have is asked for all the same, and there is no such date.",
        first_try="    return date(year, month + 1, min(day.day, 28))\n",
        correction="The 28th is the last day of February only, and not in each year. The length of the month has to be "
        "asked for.",
        called="add_months",
        probe="[add_months(date(2024, 1, day), 1).day for day in (15, 28, 29)]",
    ),
    Idea(
        "sharing-cents",
        cause="The division drops the remainder, so that up to one cent for each person is lost, and the balances no "
        "longer add up to zero.",
        first_try="""\
    shares = dict.fromkeys(names, cents // len(names))
    shares[names[0]] += cents % len(names)
    return shares
""",
        correction="One person bears the whole remainder now, while shares may differ by one cent only. It has to be dealt "
        "out cent by cent.",
        called="split_evenly",
        probe='split_evenly(1001, ["anna", "ben", "cleo"])',
    ),
    Idea(
        "sharing-order",
        cause="Who lost least by rounding comes first, and it should be who lost most.",
        first_try="    order = sorted(weights, key=lambda name: -weights[name])\n",
        correction="Who bears most has not lost most. What counts is what was cut off.",
        called="split_by_weight",
        probe='split_by_weight(100, {"anna": 1, "ben": 5})',
    ),
    Idea(
        "settlement-sharers",
        cause="Each expense is split among everybody, whoever is named to share it.",
        first_try="        for name, share in split_evenly(expense.cents, expense.sharers).items():\n",
        correction="An expense without sharers is one of everybody, and is split among nobody now.",
        called="balances",
        probe='balances([Expense(None, "anna", 900, "tea", ("ben",))], ["anna", "ben", "cleo"])',
    ),
    Idea(
        "report-columns",
        cause="All columns are set to the left, and only the first one should be: the others hold amounts.",
        first_try="    parts = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]\n",
        correction="Names belong to the left. The first column has to be told from the others.",
        called="_line",
        probe='table(["who", "paid"], [["anna", "1.00"], ["b", "100.00"]])',
    ),
)

_FIRST_TASK = load_tasks(Path(__file__).parent)[0]["faults"].split()
STANDING = tuple(idea for idea in IDEAS if idea.name in _FIRST_TASK)
"""Of the faults in the repository as it comes, which are those of the first task."""
