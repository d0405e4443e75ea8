"""Run an agent with one instrumentation, whose spans go to a receiver on this machine: `instrumented.py WAY AGENT`.

Runs in the environment of the instrumentation, so it imports nothing of ours. RECEIVER is the receiver's URL.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable

ENDPOINT = f"{os.environ['RECEIVER']}/v1/traces"

Finish = Callable[[], object]


def provider() -> Finish:
    """Set a global provider of tracers that exports to the receiver; return what ends it."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=ENDPOINT)))
    trace.set_tracer_provider(made)
    return made.shutdown


def genai() -> Finish:
    finish = provider()
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
    from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor

    OpenAIInstrumentor().instrument()
    OpenAIAgentsInstrumentor().instrument()
    return finish


def openinference() -> Finish:
    finish = provider()
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()
    LangChainInstrumentor().instrument()
    return finish


def anthropic_genai() -> Finish:
    finish = provider()
    from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor

    AnthropicInstrumentor().instrument()
    return finish


def anthropic_openinference() -> Finish:
    finish = provider()
    from openinference.instrumentation.anthropic import AnthropicInstrumentor

    AnthropicInstrumentor().instrument()
    return finish


def anthropic_traceloop() -> Finish:
    finish = provider()
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor

    AnthropicInstrumentor().instrument()
    return finish


def traceloop() -> Finish:
    finish = provider()
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()
    LangchainInstrumentor().instrument()
    return finish


def logfire() -> Finish:
    import logfire
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporter = BatchSpanProcessor(OTLPSpanExporter(endpoint=ENDPOINT))
    logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[exporter])
    logfire.instrument_pydantic_ai()
    logfire.instrument_openai()
    return logfire.shutdown


def langfuse() -> Finish:
    """Langfuse exports to LANGFUSE_HOST by itself."""
    from langfuse import get_client

    return lambda: get_client().shutdown()


ANTHROPIC = (anthropic_genai, anthropic_openinference, anthropic_traceloop)
WAYS = {way.__name__: way for way in (genai, openinference, traceloop, logfire, langfuse, *ANTHROPIC)}

if __name__ == "__main__":
    finish = WAYS[sys.argv[1]]()
    try:
        runpy.run_path(sys.argv[2], run_name="__main__")
    finally:
        finish()
