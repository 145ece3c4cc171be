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
# A registry that answers slowly, or not for a moment, must not cost the run: what was downloaded is in pip's cache.
export PIP_RETRIES ?= 8
export PIP_DEFAULT_TIMEOUT ?= 60
AGAIN = again() { "$$@" || { sleep 5; "$$@"; } || { sleep 30; "$$@"; }; }; again
UV := uv==0.13.8
TORCH := $(shell sed -nE 's/^((torch|triton|nvidia-[^=]+|cuda-[^=]+)==.*)$$/\1/p' constraints.txt)

# What most changes break first, without training anything; `make test` runs everything.
QUICK := tests/architecture tests/unit/connectors tests/unit/agent tests/unit/anchormoe/test_windows.py
# Tests that only compute share both cores; tests that start servers and kill them get a core each as well, but one
# file stays in one process. One thread each, or they would compete for the cores. Coverage is measured where the
# code runs in the test's own process.
COMPUTE := tests/unit tests/property tests/architecture
SERVICES := tests/integration tests/fault tests/browser
WORKERS ?= 2
# What failed and where fits on a page; the coverage per file is in build/coverage/index.html.
SHORT := -q --no-header --tb=short --durations=5 -n $(WORKERS)

.DEFAULT_GOAL := help
.PHONY: help setup hooks run lint check programs test docs contracts chart manifests pictures chaos soak fuzz bench bench-peers bounds locks sbom bundles clean

help:            ## what can be done here
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "anchormoe-agent needs Python 3.11 or newer; set PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python pyproject.toml constraints.txt locks/serving.txt locks/development.txt
	@echo "installing the runtime into $(VENV) (a few hundred megabytes the first time)"
	@$(AGAIN) $(LOCKED) locks/serving.txt || $(UNLOCKED)
	@$(AGAIN) $(PIP) --editable '.[serve]'
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing the development tools into $(VENV) (torch is large; a few minutes the first time)"
	@$(AGAIN) $(LOCKED) locks/development.txt || $(UNLOCKED)
	@$(AGAIN) $(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime
	@echo "installing the documentation tools into $(VENV)"
	@$(AGAIN) $(PIP) --editable '.[docs]'
	@touch $@

setup: $(VENV)/.dev   ## everything for development, in .venv

hooks: $(VENV)/.dev   ## run `make lint` before every commit and `make check` before every push
	@$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

run: $(VENV)/.runtime   ## watch a simulated plant: no Kafka, no Redis, no download
	@$(BIN)/anchormoe-agent run --config configs/demo.yaml $(ARGS)

lint: $(VENV)/.dev   ## format, lint, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

check: lint   ## the quick part of the tests: lint, and the runtime's unit tests
	@$(BIN)/pytest $(QUICK) -q -n $(WORKERS) -m 'not slow'

programs: $(VENV)/.dev   ## fetch what the tests run beside Python: a broker, a schema registry, a browser, promtool, helm
	@$(BIN)/python -m tests.support.programs

test: lint programs   ## every check and every test, on real services
	@OMP_NUM_THREADS=1 $(BIN)/pytest $(COMPUTE) $(SHORT) --cov --cov-report= --cov-fail-under=0 $(ARGS)
	@OMP_NUM_THREADS=1 $(BIN)/pytest $(SERVICES) $(SHORT) --dist loadfile --cov --cov-append --cov-report=html:build/coverage $(ARGS)

docs: $(VENV)/.docs   ## build the documentation site into build/site; a broken link is an error
	@$(BIN)/python -m docs.site

contracts: $(VENV)/.dev   ## write docs/contracts again from the code
	@for name in event state alarm alarm-transition alarm-audit settings; do \
	  $(BIN)/anchormoe-agent schema $$name > docs/contracts/$$name.schema.json || exit 1; \
	done
	@$(BIN)/anchormoe-agent schema asyncapi > docs/contracts/asyncapi.json
	@$(BIN)/anchormoe-agent schema page > docs/contracts/page.openapi.json
	@$(BIN)/python deploy/helm/build.py > /dev/null   # the chart has the settings' schema inside its own

chart: $(VENV)/.dev   ## write what the Helm chart has from elsewhere: the plant's schema, rules, dashboards
	@$(BIN)/python deploy/grafana/build.py
	@$(BIN)/python deploy/helm/build.py

manifests: $(VENV)/.dev   ## VALUES=values.yaml as plain Kubernetes objects, for those without Helm: build/manifests.yaml
	@test -n "$(VALUES)" || { echo "usage: make manifests VALUES=values.yaml [NAME=anchormoe-agent] [NAMESPACE=default]" >&2; exit 2; }
	@mkdir -p build
	@PATH="$(CURDIR)/$(BIN):$$PATH" helm template $(or $(NAME),anchormoe-agent) deploy/helm/anchormoe-agent --namespace $(or $(NAMESPACE),default) \
	  --values $(VALUES) --skip-tests --kube-version $(or $(KUBE),1.31) > build/manifests.partial
	@mv build/manifests.partial build/manifests.yaml && echo build/manifests.yaml

pictures: $(VENV)/.dev   ## draw the pictures in README again, by the product itself; all views of the page: build/pictures
	@$(BIN)/python -m docs.site.pictures
	@$(BIN)/python -m docs.site.page_pictures

chaos: $(VENV)/.dev   ## inject N=100 more faults: nothing lost, nothing extra; continues docs/results/faults.jsonl, writes faults.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.fault.campaign --faults $(or $(N),100) --lanes $(or $(LANES),2) \
	  --out docs/results/faults.md

fuzz: $(VENV)/.dev   ## N=100000 mutated inputs through every door; goes on with out/fuzz.jsonl, writes docs/results/fuzz.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --records $(or $(N),100000) --seed $(or $(SEED),1) \
	  --workers $(WORKERS) --ledger out/fuzz.jsonl --out docs/results/fuzz.md

soak: $(VENV)/.dev   ## half load for HOURS=2 with alarms and a slow receiver: memory slope, lag; writes docs/results/soak.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak.run --hours $(or $(HOURS),2) --out docs/results/soak.md

bench: $(VENV)/.dev   ## what it costs, with goals: about 12 minutes; goes on where it stopped; ARGS='--only explained'
	@$(BIN)/python -m tests.bench $(ARGS)

bench-peers: $(VENV)/.dev   ## beside Quix Streams and a plain agent, which are installed for it; writes docs/results/peers.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/peers --upgrade quixstreams==3.28.1
	@$(BIN)/python -m tests.bench.peers --out docs/results/peers.md

bounds: $(VENV)/.dev   ## what the limits are worth: one long record, a slow sensor, many keys; writes docs/results/bounds.md
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bounds --out docs/results/bounds.md

locks: $(VENV)/bin/python   ## write locks/ again from constraints.txt: every version with its hashes, no addresses
	@$(PYTHON) -m venv build/locks && build/locks/bin/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@compile() { name=$$1; shift; build/locks/bin/uv pip compile --quiet --universal --python-version 3.11.5 \
	    --constraint constraints.txt --generate-hashes --no-annotate --custom-compile-command 'make locks' \
	    --output-file locks/$$name.txt "$$@" - <<< 'setuptools>=80'; }; \
	  without_torch="$(foreach package,$(TORCH),--no-emit-package $(firstword $(subst ==, ,$(package))))"; \
	  compile serving pyproject.toml --extra serve --extra alarms $$without_torch && \
	  compile gpu pyproject.toml --extra gpu --extra alarms $$without_torch && \
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
