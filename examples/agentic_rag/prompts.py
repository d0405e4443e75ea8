"""What the model is told: the agent asks by it, and what plays the model offline knows by it what is asked."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PLAN, GRADE, ANSWER = ((HERE / f"{name}.md").read_text(encoding="utf-8") for name in ("plan", "grade", "answer"))
CHECK = (
    "Check the answer: is each sentence supported by the document that it names, and is the whole question answered?"
)
FINISH = "Write the final answer."
