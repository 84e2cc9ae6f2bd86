# Thin targets; `make help` lists them. Set-up needs only Python 3.11+, make and git.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  %-18s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(VENV)/.ready ## make .venv with everything locked in requirements.lock

$(VENV)/.ready: pyproject.toml requirements.lock tools/setup.sh
	@bash tools/setup.sh "$(PYTHON)"
	@touch $@

.PHONY: up
up: setup ## set-up, then a control plane and a real Ray cluster on this machine, Ready
	$(BIN)/manta up --quickstart

.PHONY: down
down: setup ## stop what `make up` started, and leave nothing behind
	$(BIN)/manta down

.PHONY: fmt
fmt: setup ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: check
check: setup ## format, lint, types, import contracts, unit and property tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q -n auto tests/unit tests/properties tests/architecture tests/security

.PHONY: test
test: check ## everything that guards main: check, contract, controllers on the embedded plane, real Ray
	$(PYTEST) -q -n auto tests/contract tests/histories tests/cluster tests/kubernetes
	@bash tools/redis.sh
	$(PYTEST) -q tests/e2e

.PHONY: histories
histories: setup ## 1,000 histories of concurrent clients and kill -9 (half an hour on two cores); COUNT=n for fewer
	$(BIN)/python -m tests.histories --count $(or $(COUNT),1000)

.PHONY: clients
clients: setup ## unmodified clients (Python, asyncio, kubectl, client-go where built) follow the API server; MINUTES=n (10)
	$(BIN)/python -m tests.clients --minutes $(or $(MINUTES),10)

.PHONY: upgrades
upgrades: setup ## real Ray Serve under load: 10 upgrades of each kind, heads, operator and dashboard hurt (20 minutes)
	$(BIN)/python -m tests.e2e.upgrades --count $(or $(COUNT),10)

.PHONY: chaos
chaos: setup ## 50 planes, killed at random (kill -9), leave nothing behind (20 minutes); CYCLES=n for fewer
	$(BIN)/python -m tests.chaos --cycles $(or $(CYCLES),50)

.PHONY: fuzz
fuzz: setup ## mutated requests and odd custom resources (10 minutes); REQUESTS=n RESOURCES=n COMPARE=n (wants Go) SEED=n
	$(if $(COMPARE),$(BIN)/python tools/kubernetes/run.py --without kube-controller-manager --without kube-scheduler --) \
	  $(BIN)/python -m tests.fuzz --requests $(or $(REQUESTS),20000) --resources $(or $(RESOURCES),4000) --compare $(or $(COMPARE),0) --seed $(or $(SEED),1)

.PHONY: jobs
jobs: setup ## RayJobs on real Ray at length: samples, examples, suspending, deadlines, retries, a schedule (10 minutes)
	$(PYTEST) -q tests/e2e/jobs_at_length.py

.PHONY: golden
golden: setup ## write the golden files anew; read the diff
	MANTA_GOLDEN=1 $(PYTEST) -q tests/unit tests/cluster -k golden

.PHONY: crds
crds: setup ## write src/manta/api/schemas anew from the types
	$(BIN)/python -m tools.crds.generate

.PHONY: chart
chart: setup ## write the generated parts of charts/manta anew, then lint, render and install it with Helm
	$(BIN)/python -m tools.chart.generate
	@bash tools/helm.sh >/dev/null
	$(PYTEST) -q tests/unit/charts tests/contract/test_chart.py tests/contract/test_install.py

.PHONY: docs
docs: setup ## write docs/reference, and the table of differences, from the code
	$(BIN)/python -m tools.docs.generate

.PHONY: bench
bench: setup ## measure, print JSON, keep it in benchmarks/results.json
	$(BIN)/python -m benchmarks

.PHONY: test-kubernetes
test-kubernetes: setup ## contract and controllers on real Kubernetes, built from its Go modules (cached), or EXTERNAL=1 KUBECONFIG=...
	@bash tools/helm.sh >/dev/null || true
	$(BIN)/python tools/kubernetes/run.py $(if $(EXTERNAL),--external) -- bash -c \
	  '$(PYTEST) -q tests/kubernetes; stories=$$?; $(PYTEST) -q tests/contract -m "not embedded_only" && exit $$stories'

.PHONY: e2e-kubernetes
e2e-kubernetes: setup ## real Ray in real containers, on a node made here (root, Linux), or EXTERNAL=1 KUBECONFIG=...
	@bash tools/helm.sh >/dev/null
	$(if $(EXTERNAL),,$(BIN)/python -m tools.kubernetes.node.run --) env MANTA_E2E_KUBERNETES=$(if $(EXTERNAL),external,here) $(PYTEST) -q tests/e2e_kubernetes tests/e2e

.PHONY: lock
lock: setup ## resolve the dependencies anew into requirements.lock
	.cache/uv/bin/uv export --quiet --no-header --no-emit-project --format requirements-txt -o requirements.lock
	$(BIN)/python -m tools.image.lock
