# Each target works as the first command on a fresh Debian machine.
PYTHON := .venv/bin/python
# Workers for tests that share nothing: one more than there are CPUs, for some tests wait, and at most eight.
PARALLEL = -n $(shell expr $$(nproc) + 1) --maxprocesses 8 --dist worksteal
# One part of the tests: a folder of tests/, or `guest` for tests/vm.
PART :=
# The tests of `make check` that lacked a program.
SKIPPED := .cache/skipped-tests
# A line that names MAKE itself runs under `make -n` too, and would boot the guests.
MAKE_AGAIN := $(MAKE)
# Where bytecode is switched off, as in many containers, each process would compile the package, and pytest the tests, again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help report capture test test-beside-guests test-apart test-here test-all test-arm64 check check-types check-units lab truth bench soak attack fuzz e2e golden chart bytecode fixtures clean image lock

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

report: ## set everything up, then report on every container (or cgroup) of this host
	@deploy/setup.sh run
	@.venv/bin/numaudit report

test: ## set everything up, then run all tests, the four-node guest included; PART=guest, browser, deploy...: only those
	@deploy/setup.sh test $(PART)
ifeq ($(PART),)
	@$(PYTHON) tests/vm/background.py $(MAKE_AGAIN) --no-print-directory test-beside-guests
else
	$(PYTHON) -m pytest tests/$(PART:guest=vm)
endif

# The guests take longest, so they begin first, and all that needs none runs meanwhile.
test-beside-guests:
ifdef CHECKED # by `make check` on the same tree: only what it skipped, which the set-up may have brought
	@[ ! -s $(SKIPPED) ] || $(PYTHON) -m pytest @$(SKIPPED)
else
	@$(MAKE) --no-print-directory check EXAMPLES=default
endif
	@$(MAKE) --no-print-directory -j2 test-apart test-here; status=$$?; cat $(APART_LOG); exit $$status

# These mostly wait for browsers and servers of their own, and neither change this host nor measure it.
APART := browser deploy integration journeys packaging
# Shown when both have ended, so that the lines of the other run appear as they come.
APART_LOG := .cache/test-apart.log

test-apart:
	$(PYTHON) -m pytest $(APART:%=tests/%) > $(APART_LOG) 2>&1

test-here:
	$(PYTHON) -m pytest tests --ignore tests/unit $(APART:%=--ignore tests/%)

test-arm64: ## all tests for the guest in the arm64 one, which has a PMU: 15 minutes, where `make test` runs a few
	@deploy/setup.sh test guest
	GUESTS=all $(PYTHON) -m pytest tests/vm/test_guest.py -k arm64-6.12

test-all: export GUESTS = all
test-all: test ## all tests, those in guests on every kernel and architecture: an hour

# How hard property tests try: tests/conftest.py has the profiles.
check: EXAMPLES := check
check: ## the fast inner loop: lint, types, import layers, unit tests
	@deploy/setup.sh check
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports
	@$(MAKE) --no-print-directory -j2 check-types check-units EXAMPLES=$(EXAMPLES); status=$$?; cat $(TYPES_LOG); exit $$status

# The tests run beside mypy, which takes one CPU. What it says is shown below their rows; errors at once, too.
TYPES_LOG := .cache/check-types.log

check-types:
	@mkdir -p $(dir $(TYPES_LOG))
	.venv/bin/mypy > $(TYPES_LOG) 2>&1 || { cat $(TYPES_LOG); exit 1; }

check-units:
	@mkdir -p $(dir $(SKIPPED))
	HYPOTHESIS_PROFILE=$(EXAMPLES) $(PYTHON) -m pytest tests/unit $(PARALLEL) --list-skipped $(SKIPPED)

capture: ## capture another host by ssh and report on it: make capture HOST=root@server
	@[ -n "$(HOST)" ] || { echo "name the host: make capture HOST=root@server" >&2; exit 2; }
	@deploy/setup.sh run
	@file="$(HOST)-$$(date +%Y%m%d-%H%M%S).tar.xz"; .venv/bin/numaudit capture --from "$(HOST)" "$$file" && .venv/bin/numaudit report --root "$$file"

lab: ## boot a four-node guest and report on an aligned, a misaligned and a split workload
	@deploy/setup.sh lab
	$(PYTHON) tests/vm/lab.py

truth: ## boot the guests and compare figures with the truth (ROUNDS=..., KERNEL=6.1); then docs/truth.md is made of it: half an hour a round
	@deploy/setup.sh test guest
	$(PYTHON) tests/vm/truth.py --rounds $(or $(ROUNDS),3) $(if $(KERNEL),--kernel $(KERNEL)); status=$$?; \
	$(PYTHON) -m pytest -q tests/unit/docs/test_docs_measured.py --update-golden && exit $$status

image: ## build the agent's image without a registry; its size, start time and memory
	@deploy/setup.sh test image
	@PYTHONPATH=tests/support $(PYTHON) tests/image/measure.py

lock: ## renew the lock files of the image: the newest Python packages that pyproject.toml allows
	@deploy/setup.sh test image
	deploy/image/lock.sh

bench: ## the benchmarks, as ratios against a floor or a peer in the same run; then docs/cost.md is made of their results
	@deploy/setup.sh test bench
	$(PYTHON) tests/bench/run_all.py $(BENCH); status=$$?; \
	$(PYTHON) -m pytest -q tests/unit/docs/test_docs_measured.py --update-golden && exit $$status

soak: ## the agent under churn for 20 minutes (SECONDS=...): memory, files, threads and maps stay as they are
	@deploy/setup.sh test soak
	$(PYTHON) tests/soak/soak.py $(or $(SECONDS),1200)

attack: ## hundreds of clients that do harm to the agent for two minutes (SECONDS=...), and what honest ones notice
	@deploy/setup.sh test attack
	$(PYTHON) tests/attack/attack.py $(or $(SECONDS),120)

fuzz: ## every parser against many generated inputs
	@deploy/setup.sh check
	HYPOTHESIS_PROFILE=fuzz $(PYTHON) -m pytest tests/unit -k 'any_'

e2e: ## numaudit on the cluster of KUBECONFIG: forecasts beside what its kubelet does (IMAGE=..., NODE=..., OPTIONS=...)
	@deploy/setup.sh run
	@$(PYTHON) tests/e2e/e2e.py --image "$(IMAGE)" $(if $(NODE),--node $(NODE)) $(OPTIONS)

golden: ## rewrite the golden outputs; read the diff before you commit it
	@deploy/setup.sh test browser
	$(PYTHON) -m pytest tests/unit --update-golden

chart: ## make the Helm chart, deploy/helm/numaudit, of the manifests, alerts, dashboards and settings
	@deploy/setup.sh test deploy
	$(PYTHON) deploy/helm/generate_chart.py .cache/tools/kustomize/usr/bin/kustomize build

bytecode: ## compile the BPF texts again after a change, as root; commit what changes in bpf/bytecode
	@deploy/setup.sh test host
	$(PYTHON) -m numaudit.probes.loading.compile

fixtures: ## unpack the captured hosts and print their folder
	@deploy/setup.sh check
	@$(PYTHON) tests/support/fixture_trees.py

clean: ## remove what the set-up and the tests made
	rm -rf .venv .cache dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
