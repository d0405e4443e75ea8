"""Print the report of a journal: `python -m tally example.journal`."""

from __future__ import annotations

import sys
from pathlib import Path

from tally.journal import JournalError, read_journal
from tally.report import paid, transfers


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m tally JOURNAL", file=sys.stderr)
        return 2
    try:
        expenses = read_journal(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    except (OSError, JournalError) as error:
        print(error, file=sys.stderr)
        return 1
    print(paid(expenses))
    print()
    print(transfers(expenses))
    return 0


if __name__ == "__main__":
    sys.exit(main())
