# What can be made with a checkout; `make help` lists it.
#
# Each target prepares the environment it needs first (scripts/environment.sh) and does nothing to one that is ready.
# PYTHON names another Python, VENV another folder for its environment.

ifdef PYTHON
VENV ?= .venv-$(notdir $(PYTHON))
else
VENV ?= .venv
endif
ENGINE_VENV ?= $(VENV)-engine
AIPERF_VENV ?= $(VENV)-aiperf
PHOENIX_VENV ?= $(VENV)-phoenix
CLIENTS_VENV ?= $(VENV)-clients
CLIENTS ?= $(basename $(notdir $(wildcard scripts/clients/*.txt)))
AGENTS_VENV ?= $(VENV)-agents
INTERCEPT_VENV ?= $(VENV)-intercept
OTLP_VENV ?= $(VENV)-otlp
INSTRUMENTATIONS ?= $(basename $(notdir $(wildcard scripts/clients/otlp/*.txt)))
INTERCEPT_CLIENTS ?= $(CLIENTS_VENV)/intercept
CODING_AGENTS ?= $(notdir $(wildcard scripts/coding_agents/*))
FEW_CLIENTS := openai anthropic openai-agents langgraph mini-swe-agent
python := $(VENV)/bin/python
without_others := --ignore tests/engine --ignore tests/aiperf --ignore tests/clients --ignore tests/coding_agents \
	--ignore tests/intercept --ignore tests/phoenix --ignore tests/otlp_clients --ignore tests/experiments
pytest := $(python) -m pytest -n auto --dist loadfile
export PYTHON

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: fuzz soak help demo test test-all test-others test-engine test-experiments test-aiperf test-otlp test-clients test-few-clients test-coding-agents example-traces dataset test-intercept test-intercept-others test-data tests bench bench-engine bench-experiments bench-aiperf format docs environment

help: ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r target text; do printf '  make %-21s %s\n' "$$target" "$$text"; done

demo: environment ## record an agent, replay its trace and compare with the optimum
	$(python) -m examples.demo

test: environment ## check format, lint and types, then run the tests
	$(python) -m ruff format --check
	$(python) -m ruff check
	$(python) -m mypy
	$(python) -m basedpyright --pythonpath $(python) --project tests/sdk/typed_api.json
	$(pytest) $(without_others)

test-all: test test-others ## the same, then the tests on every other Python found (3.11, 3.12, 3.13)

test-others: ## the tests alone on every other Python found
	@MAKE="$(MAKE)" scripts/test_others.sh $(VENV)

tests: environment ## the tests alone
	$(pytest) $(without_others)

test-engine: ## the tests against a real inference engine, in an environment of their own
	@scripts/environment.sh $(ENGINE_VENV) dev engine examples
	ROTOSCOPE_ENGINE=1 $(ENGINE_VENV)/bin/python -m pytest -n 0 -s tests/engine

test-experiments: environment ## repeat on the simulator what is known of serving agents: cliff, batch sizes, routers
	$(pytest) tests/experiments

test-aiperf: environment ## that AIPerf loads what is converted, in an environment of its own
	@scripts/programs.sh aiperf $(AIPERF_VENV)
	ROTOSCOPE_AIPERF=$(AIPERF_VENV) $(python) -m pytest -n 0 -s tests/aiperf

test-otlp: environment ## send spans to a real tracing backend, and read those of real instrumentations, in environments of their own
	@scripts/programs.sh phoenix $(PHOENIX_VENV)
	ROTOSCOPE_PHOENIX=$(PHOENIX_VENV) $(python) -m pytest -n 0 -s tests/phoenix
	@for one in $(INSTRUMENTATIONS); do scripts/clients.sh otlp/$$one $(OTLP_VENV)/$$one || exit 1; done
	ROTOSCOPE_OTLP_CLIENTS=$(OTLP_VENV) $(python) -m pytest -n 0 -s tests/otlp_clients

test-clients: environment ## record real clients (CLIENTS, else all), each in an environment of its own
	@for client in $(CLIENTS); do scripts/clients.sh $$client $(CLIENTS_VENV)/$$client || exit 1; done
	ROTOSCOPE_CLIENTS=$(CLIENTS_VENV) ROTOSCOPE_CLIENT_NAMES="$(CLIENTS)" $(python) -m pytest -s tests/clients

test-few-clients: ## the same for those that are small
	@$(MAKE) test-clients CLIENTS="$(FEW_CLIENTS)"

test-coding-agents: environment ## record real coding agents (CODING_AGENTS, else all), each in a folder of its own; needs Node
	@for agent in $(CODING_AGENTS); do scripts/coding_agents.sh $$agent $(AGENTS_VENV)/$$agent || exit 1; done
	@scripts/environment.sh $(INTERCEPT_VENV) tests intercept
	ROTOSCOPE_CODING_AGENTS=$(AGENTS_VENV) ROTOSCOPE_CODING_AGENT_NAMES="$(CODING_AGENTS)" \
		ROTOSCOPE_INTERCEPT_PYTHON=$(INTERCEPT_VENV)/bin/python \
		scripts/offline.sh $(python) -m pytest -n 0 tests/coding_agents

example-traces: environment ## record the traces of coding agents in examples/traces anew; needs Node
	@for agent in $(notdir $(wildcard scripts/coding_agents/*)); do scripts/coding_agents.sh $$agent $(AGENTS_VENV)/$$agent || exit 1; done
	PYTHONPATH=tests scripts/offline.sh $(python) -m scripts.example_traces $(AGENTS_VENV)

dataset: environment ## record 30 runs of each agent pattern in examples/, and write docs/dataset.md anew; goes on where it was
	PYTHONPATH=tests scripts/offline.sh $(python) -m scripts.dataset

test-intercept: ## record clients whose server is fixed, by mitmproxy, which has an environment of its own, and so have they
	@scripts/environment.sh $(INTERCEPT_VENV) tests intercept
	@scripts/clients.sh intercept/all $(INTERCEPT_CLIENTS)
	ROTOSCOPE_INTERCEPT_CLIENTS=$(INTERCEPT_CLIENTS) \
		$(INTERCEPT_VENV)/bin/python -m pytest -n 2 --dist loadfile tests/intercept

test-intercept-others: ## the same on Python 3.11 and 3.12, which have different versions of mitmproxy, where found
	@MAKE="$(MAKE)" SUPPORTED="3.11 3.12" INTERCEPT_CLIENTS=$(INTERCEPT_CLIENTS) \
		scripts/test_others.sh $(VENV) test-intercept

bench: environment ## measure every claim about speed (benchmarks/)
	@scripts/environment.sh $(INTERCEPT_VENV) tests intercept
	@scripts/benchmarks.sh $(python) $(INTERCEPT_VENV)/bin/python

test-data: environment ## replay and convert the published traces whole, with the prefix law on the wire
	ROTOSCOPE_WHOLE_DATA=1 $(python) -m pytest -n auto tests/test_replayed_data_law.py tests/test_converted_data_law.py \
		tests/traces/formats/test_records_data_law.py tests/traces/formats/test_mooncake_sessions_writer.py

INPUTS ?= 1000000
fuzz: environment ## feed so many damaged inputs (INPUTS) to every reader of trace formats and every dialect
	PYTHONPATH=tests $(python) -m scripts.fuzz.readers --inputs $(INPUTS)
	PYTHONPATH=tests $(python) -m scripts.fuzz.dialects --inputs $(INPUTS)

CALLS ?= 100000
soak: environment ## let so many hostile requests (CALLS) pass the gateway, and kill it now and then; see docs/reliability.md
	$(python) -m scripts.soak proxy --calls $(CALLS)
	$(python) -m scripts.soak kill
	$(python) -m scripts.soak record

bench-engine: ## compare with real engines: vLLM, Dynamo's mocker and llama-server, in environments of their own
	@scripts/environment.sh $(ENGINE_VENV) dev engine examples
	-@scripts/programs.sh vllm $(VENV)-vllm
	-@scripts/programs.sh dynamo $(VENV)-dynamo
	PYTHONPATH=tests $(ENGINE_VENV)/bin/python benchmarks/engines.py --vllm $(VENV)-vllm --dynamo $(VENV)-dynamo

bench-experiments: ## repeat experiments on them: the cliffs of vLLM and llama-server, the routers of Dynamo
	@scripts/environment.sh $(ENGINE_VENV) dev engine examples
	-@scripts/programs.sh vllm $(VENV)-vllm
	-@scripts/programs.sh dynamo $(VENV)-dynamo
	PYTHONPATH=tests $(ENGINE_VENV)/bin/python -m benchmarks.experiments --vllm $(VENV)-vllm --dynamo $(VENV)-dynamo

bench-sessions: environment ## hold 10,000 sessions in one process, beside a naive client; takes 16 minutes
	$(python) -m benchmarks.many_sessions

bench-aiperf: environment ## compare with AIPerf on the same server and traces, AIPerf in an environment of its own
	@scripts/programs.sh aiperf $(AIPERF_VENV)
	$(python) -m benchmarks.against_aiperf --aiperf $(AIPERF_VENV)

format: environment ## format the code and apply the fixes that lint knows
	$(python) -m ruff check --fix
	$(python) -m ruff format

docs: environment ## write the generated parts of docs/ anew
	$(python) docs/generate.py

environment:
	@scripts/environment.sh $(VENV) dev examples
