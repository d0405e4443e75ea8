"""mini-swe-agent: its default agent with its tool `bash`, twice, then two at the same time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_SILENT_STARTUP": "1",
}

import errand
import yaml
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

CONFIG = yaml.safe_load((package_dir / "config" / "mini.yaml").read_text())


def work(task: str) -> object:
    """Let an agent of its own do a task."""
    settings = {**CONFIG.get("model", {}), "model_name": f"openai/{errand.MODEL}"}
    settings["model_kwargs"] = {
        **settings.get("model_kwargs", {}),
        "api_key": errand.KEY,
        "extra_headers": errand.HEADERS,
    }
    settings.pop("model_class", None)
    options = {key: value for key, value in CONFIG["agent"].items() if key not in ("mode", "agent_class")}
    options["system_template"] = errand.SYSTEM
    options |= {"step_limit": 6, "cost_limit": 0.0}
    return DefaultAgent(LitellmModel(**settings), LocalEnvironment(env={"TOLD": errand.IN_RESULT}), **options).run(task)


def main() -> None:
    work(errand.QUESTION)
    work(errand.REFUSED_QUESTION)
    with ThreadPoolExecutor() as pool:
        list(pool.map(work, errand.SIDE_QUESTIONS))


main()
