# `make run` shows the product; `make test` proves it. Both do their own set-up in .venv.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Every package but torch is installed by hash. `auto` goes on without hashes, loudly, where a machine has wheels of its
# own; `require` stops there. Torch comes as CUDA or CPU build from different indexes: its version is pinned, and
# locks/torch.txt has the hashes of the default index.
HASHES ?= auto
LOCKED = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement
UNLOCKED = { test "$(HASHES)" = auto && echo "warning: these packages were NOT checked by hash; see SECURITY.md" >&2; }
UV := uv==0.13.8
TORCH := $(shell sed -nE 's/^((torch|triton|nvidia-[^=]+|cuda-[^=]+)==.*)$$/\1/p' constraints.txt)

# What most changes break first, without training anything; `make test` runs everything.
QUICK := tests/architecture tests/unit/connectors tests/unit/agent tests/unit/anchormoe/test_windows.py
# Tests that only compute share both cores; tests that start servers and kill them get a core each as well, but one
# file stays in one process. One thread each, or they would compete for the cores. Coverage is measured where the
# code runs in the test's own process.
COMPUTE := tests/unit tests/property tests/architecture
SERVICES := tests/integration tests/fault
WORKERS ?= 2
# What failed and where fits on a page; the coverage per file is in build/coverage/index.html.
SHORT := -q --no-header --tb=short --durations=5 -n $(WORKERS)

.DEFAULT_GOAL := help
.PHONY: help setup hooks run lint check test docs contracts pictures chaos fuzz soak bench locks sbom bundles clean

bench: $(VENV)/.dev   ## what it costs: model and streaming, measured on this machine
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_paper --out docs/results/bench-model.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_recipes --out docs/results/bench-recipes.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.backends --out docs/results/backends.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_stream --out docs/results/bench-stream.md

locks: $(VENV)/bin/python   ## write locks/ again from constraints.txt: every version with its hashes, no addresses
	@$(PYTHON) -m venv build/locks && build/locks/bin/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@compile() { name=$$1; shift; build/locks/bin/uv pip compile --quiet --universal --python-version 3.11.5 \
	    --constraint constraints.txt --generate-hashes --no-annotate --custom-compile-command 'make locks' \
	    --output-file locks/$$name.txt "$$@" - <<< 'setuptools>=80'; }; \
	  without_torch="$(foreach package,$(TORCH),--no-emit-package $(firstword $(subst ==, ,$(package))))"; \
	  compile serving pyproject.toml --extra fast --extra alarms $$without_torch && \
	  compile development pyproject.toml --extra dev $$without_torch && \
	  build/locks/bin/uv pip compile --quiet --universal --python-version 3.11.5 --constraint constraints.txt \
	    --generate-hashes --no-annotate --custom-compile-command 'make locks' --no-deps --output-file locks/torch.txt - \
	    <<< "$$(printf '%s\n' $(TORCH))"

sbom: $(VENV)/.dev   ## what .venv consists of, as a CycloneDX document: build/sbom.cdx.json
	@mkdir -p build
	@$(BIN)/python -m cyclonedx_py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
	  --output-format JSON --output-file build/sbom.cdx.json $(BIN)/python
	@echo "build/sbom.cdx.json"

bundles: $(VENV)/.dev   ## train the demo's models again (some minutes)
	@for kind in pump gearbox patient; do \
	  $(BIN)/anchormoe-agent simulate recordings $$kind --out out/recordings/$$kind --count 20 --samples 6144 && \
	  $(BIN)/anchormoe-agent train --data recordings:out/recordings/$$kind --config configs/training/$$kind.yaml \
	    --out configs/bundles/$$kind --force || exit 1; \
	done

clean:   ## remove what the targets made
	rm -rf $(VENV) .cache .coverage build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis out
