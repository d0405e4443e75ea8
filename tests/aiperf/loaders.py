"""What AIPerf's own loaders and analysis say of trace files; run in AIPerf's environment, of version 0.13.0.

Prints one JSON object: `sessions` and `requests` as loaded, and `hits` and `blocks` of each request, in AIPerf's order,
that its theoretical prefix hit rate is made of; of Mooncake rows also `prompt_tokens`, which a run would send. For Weka files that is one cache a file and full blocks, pooled (what a
run reports); for Mooncake files one cache, as their rows come, of which `aiperf analyze-trace` takes the mean.

Run: python loaders.py weka|mooncake FILE_OR_FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def run_config(kind: str, path: Path) -> Any:
    """Return the configuration that `aiperf profile` would make of its options."""
    from aiperf.config.flags import CLIConfig
    from aiperf.config.flags.resolver import resolve_config
    from aiperf.config.loader import build_benchmark_plan
    from aiperf.config.resolution.plan import BenchmarkRun

    options = CLIConfig(
        model_names=["m"], endpoint_type="chat", custom_dataset_type=f"{kind}_trace", input_file=str(path)
    )
    plan = build_benchmark_plan(resolve_config(options, None))
    return BenchmarkRun(benchmark_id="b", cfg=plan.configs[0], artifact_dir=path.parent, trial=0)


def weka(path: Path) -> dict[str, object]:
    """Load Weka files as a run does, up to the making of text."""
    from aiperf.dataset.loader.weka_trace import WekaTraceLoader

    if not WekaTraceLoader.can_load(filename=path):
        raise SystemExit(f"{path}: AIPerf does not take it for Weka")
    loader = WekaTraceLoader(filename=str(path), run=run_config("weka", path))
    data = loader.load_dataset()
    plans = loader._build_reconstruction_plans(data)
    values = loader._build_shared_metric_values(plans.parent_plans, plans.child_plans, plans.flat_plans)
    counts = [count for of in values.values() for count in of.values()]
    return {
        "sessions": len(data),
        "requests": len(counts),
        "hits": [c[0] for c in counts],
        "blocks": [c[1] for c in counts],
    }


def mooncake(path: Path) -> dict[str, object]:
    """Load Mooncake rows as a run does, up to the making of text, and analyse them as `aiperf analyze-trace` does."""
    from aiperf.dataset.loader.mooncake_trace import MooncakeTraceDatasetLoader
    from aiperf.dataset.synthesis.prefix_analyzer import PrefixAnalyzer

    first = json.loads(path.read_bytes().partition(b"\n")[0])
    if not MooncakeTraceDatasetLoader.can_load(first):
        raise SystemExit(f"{path}: AIPerf does not take it for Mooncake")
    generator = SimpleNamespace(
        tokenizer=None, _cache={}, _hash_id_corpus_rng=SimpleNamespace(set_trace_id=lambda _: None)
    )
    loader = MooncakeTraceDatasetLoader(
        filename=path, prompt_generator=generator, run=run_config("mooncake", path), default_block_size=512
    )
    data = loader.load_dataset()
    for trace in (one for of in data.values() for one in of):
        loader._build_turn(trace, "text")  # checks what loading does not
    sent = [tokens for of in data.values() for tokens in prompts_sent(of)]
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    analyzer = PrefixAnalyzer(block_size=512)
    stats = analyzer.analyze_file(path)
    return {
        "sessions": len(data),
        "requests": stats.total_requests,
        "loaded": sum(map(len, data.values())),
        "prompt_tokens": sum(sent),
        "hit_rate": stats.cache_hit_rate,
        "blocks": [len(row["hash_ids"]) for row in rows],
    }


def prompts_sent(session: list[Any]) -> Iterator[int]:
    """Yield the prompts of a session: AIPerf sends with a turn all turns and answers before it."""
    before = 0
    for turn in session:
        yield before + turn.input_length
        before += turn.input_length + turn.output_length


if __name__ == "__main__":
    print(json.dumps({"weka": weka, "mooncake": mooncake}[sys.argv[1]](Path(sys.argv[2]).absolute())))
