"""The faults that a task can have: pieces of the toy repository, each as it should be and as it is faulty.

Four of them stand in the repository as it comes; a task names those that its copy has, and no others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """A piece of one module; each of the two texts stands for the other, and occurs once where it is."""

    module: str
    sound: str
    faulty: str

    @property
    def path(self) -> str:
        return f"tally/{self.module}.py"


FAULTS: Mapping[str, Fault] = {
    "money-sign": Fault(
        "money",
        sound='    sign = -1 if plain.startswith("-") else 1\n    return int(whole) * 100 + sign * cents\n',
        faulty="    return int(whole) * 100 + cents\n",
    ),
    "money-cents": Fault(
        "money",
        sound="    whole, fraction = divmod(abs(cents), 100)\n",
        faulty="    whole, fraction = divmod(cents, 100)\n",
    ),
    "journal-comment": Fault(
        "journal",
        sound="""\
    quoted = False
    for position, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == "#" and not quoted:
            return line[:position]
    return line
""",
        faulty='    return line.partition("#")[0]\n',
    ),
    "journal-order": Fault(
        "journal",
        sound="    return sorted(expenses, key=lambda expense: expense.day)\n",
        faulty="    return expenses\n",
    ),
    "recurring-day": Fault(
        "recurring",
        sound="""\
    day, step = first, 0
    while day <= until:
        yield day
        step += 1
        if recurrence.months:
            day = add_months(first, step * recurrence.months)
        else:
            day = first + timedelta(weeks=step * recurrence.weeks)
""",
        faulty="""\
    day = first
    while day <= until:
        yield day
        day = add_months(day, recurrence.months) if recurrence.months else day + timedelta(weeks=recurrence.weeks)
""",
    ),
    "recurring-month": Fault(
        "recurring",
        sound="    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))\n",
        faulty="    return date(year, month + 1, day.day)\n",
    ),
    "sharing-cents": Fault(
        "sharing",
        sound="""\
    share, left_over = divmod(cents, len(names))
    return {name: share + (rank < left_over) for rank, name in enumerate(names)}
""",
        faulty="    return dict.fromkeys(names, cents // len(names))\n",
    ),
    "sharing-order": Fault(
        "sharing",
        sound="    order = sorted(weights, key=lambda name: -lost[name])\n",
        faulty="    order = sorted(weights, key=lambda name: lost[name])\n",
    ),
    "settlement-sharers": Fault(
        "settlement",
        sound="        for name, share in split_evenly(expense.cents, expense.sharers or everybody).items():\n",
        faulty="        for name, share in split_evenly(expense.cents, everybody).items():\n",
    ),
    "report-columns": Fault(
        "report",
        sound="""\
    first, *others = zip(cells, widths, strict=True)
    parts = [first[0].ljust(first[1])]
    parts.extend(cell.rjust(width) for cell, width in others)
""",
        faulty="    parts = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]\n",
    ),
}


def leave_only(names: Collection[str], root: Path) -> None:
    """Give a copy of the toy repository the faults of these names, and no others."""
    for name, fault in FAULTS.items():
        file = root / fault.path
        text = file.read_text(encoding="utf-8")
        texts = (fault.sound, fault.faulty) if name in names else (fault.faulty, fault.sound)
        file.write_text(text.replace(*texts), encoding="utf-8")
