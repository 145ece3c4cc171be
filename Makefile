# `make run` shows the product; `make test` proves it. Both do their own set-up in .venv.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# What most changes break first, without torch's slow start; `make test` runs everything.
QUICK := tests/architecture tests/unit/connectors $(wildcard tests/unit/test_settings_*.py tests/unit/agent/contracts/test_contracts*.py) \
	tests/unit/anchormoe/test_windows.py tests/unit/agent/windows/test_ring_buffers.py $(wildcard tests/unit/agent/runtime/test_pipeline*.py) tests/unit/agent/terminal/test_views.py

.DEFAULT_GOAL := help
.PHONY: help setup run check test chaos bench bundles clean

help:            ## what can be done here
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "anchormoe-agent needs Python 3.11 or newer; set PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing the runtime into $(VENV) (torch is large; a few minutes the first time)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing the development tools into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@

setup: $(VENV)/.dev   ## everything for development, in .venv

run: $(VENV)/.runtime   ## watch a simulated plant: no Kafka, no Redis, no download
	@$(BIN)/anchormoe-agent run --config configs/demo.yaml $(ARGS)

check: $(VENV)/.dev   ## the quick part of the tests: lint, types, imports, the runtime's unit tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest $(QUICK) -q -n 2 -m 'not slow'

test: $(VENV)/.dev   ## every check and every test, on real services
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest --durations=15 $(ARGS)

chaos: $(VENV)/.dev   ## N=100 injuries in about an hour: nothing lost, nothing invented; writes docs/results/faults.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.fault.campaign --injuries $(or $(N),100) --seed $(or $(SEED),1) \
	  --out docs/results/faults.md

bench: $(VENV)/.dev   ## what it costs: model and streaming, measured on this machine
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_paper --out docs/results/bench-model.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_recipes --out docs/results/bench-recipes.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_stream --out docs/results/bench-stream.md

bundles: $(VENV)/.dev   ## train the demo's models again (some minutes)
	@for kind in pump gearbox patient; do \
	  $(BIN)/anchormoe-agent simulate recordings $$kind --out out/recordings/$$kind --count 20 --samples 6144 && \
	  $(BIN)/anchormoe-agent train --data recordings:out/recordings/$$kind --config configs/training/$$kind.yaml \
	    --out configs/bundles/$$kind --force || exit 1; \
	done

clean:   ## remove what the targets made
	rm -rf $(VENV) .cache build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis out
