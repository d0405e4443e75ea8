"""A small ReAct coding agent that repairs a toy repository; run it with `python -m examples.react`."""
