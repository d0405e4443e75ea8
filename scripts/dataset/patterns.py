"""The agent patterns of which the dataset has traces, each beside the agent of the article that it is like."""

from __future__ import annotations

from dataclasses import dataclass

RUNS = 30
"""Of each pattern; the number of a run is its seed, and its task."""


@dataclass(frozen=True)
class Theirs:
    """A column of the article's table 1: figures as they are printed there."""

    name: str
    traces: str
    requests: str
    """LLM requests a trace, mean."""
    isl: str
    """Median and 90th percentile over requests, and so below."""
    osl: str
    last_isl: str
    """Of the last turn of each trace, mean, and so below."""
    last_osl: str
    hit_rate: str
    """The optimal cache hit rate of each trace, mean."""


@dataclass(frozen=True)
class Pattern:
    """An agent in examples/."""

    name: str
    theirs: Theirs | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return what follows `python`; {} stands for the number of the run.

        Answers come in one piece: when a token would have come is made up, and costs most of the time to record.
        """
        return ("-m", f"examples.{self.name}", "--task", "{}", "--seed", "{}", "--no-stream")


PATTERNS = (
    Pattern(
        "react",
        theirs=Theirs("Coder", "500", "38.7", "14.4k, 37.2k", "110, 436", "25.1k", "603", "96.5%"),
    ),
    Pattern(
        "deep_research",
        theirs=Theirs("Open Deep Research", "100", "27.2", "6.2k, 21.1k", "632, 4.0k", "31.6k", "12.8k", "47.8%"),
    ),
    Pattern(
        "iterative_research",
        theirs=Theirs("IterResearch", "100", "11.4", "6.3k, 17.2k", "1.7k, 3.0k", "6.4k", "5.8k", "24.4%"),
    ),
    Pattern(
        "tree_of_thought",
        theirs=Theirs("Tree-of-Thought Research", "30", "25.4", "1.7k, 4.6k", "985, 4.7k", "3.4k", "643", "28.8%"),
    ),
    Pattern("agentic_rag"),
)
