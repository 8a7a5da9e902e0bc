# SPDX-License-Identifier: Apache-2.0
# Everything that is done with this project has a target here; `make help` lists them.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
# What `make gen` writes. Checked by `make verify`, never edited by hand.
GENERATED := crds api/trainsnap_api/_generated api/trainsnap_api/client/_generated \
	controller/trainsnap_controller/runtime/_generated deploy/kustomize/base/rbac.yaml docs/reference
CODE := api controller codegen examples tools tests
# A kubeconfig that is named on purpose: `make test CLUSTER=FILE`. One that happens to be exported is never used.
CLUSTER ?=
unexport KUBECONFIG
export TRAINSNAP_TEST_CLUSTER := $(if $(CLUSTER),$(if $(filter /%,$(firstword $(CLUSTER))),,$(CURDIR)/)$(CLUSTER))
# Further arguments for pytest, such as ARGS="-k snapshot -x".
ARGS ?=
KEEP ?=
DIR ?= .plane
PROFILE ?= full

# A value as one word of a shell command, whatever is in it.
quoted = '$(subst ','\'',$(1))'
# A .venv that was finished once, and whose Python is gone or cannot be run any more, is as good as none.
BROKEN := $(if $(wildcard $(STAMP)),$(shell $(BIN)/python -c '' >/dev/null 2>&1 || echo broken))

.DEFAULT_GOAL := help
.PHONY: bench help setup gen fmt lint types layers files fresh verify unit integration e2e test bench-client bench-migrate plane plane-down demo clean
.DELETE_ON_ERROR:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Set-up

setup: $(STAMP) ## Make .venv with everything the project needs, in the versions of constraints.txt

$(STAMP): pyproject.toml constraints.txt $(BROKEN)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		found=$$($(PYTHON) --version 2>/dev/null | head -n 1); \
		echo "make setup: Python 3.11 or newer is needed, and $(PYTHON) is $${found:-missing}:" \
			"try make setup PYTHON=python3.12" >&2; exit 1; }
	@# Without a working pip it is what an interrupted run left, or one whose Python was replaced.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf .venv && $(PYTHON) -m venv .venv; } || { \
		echo "make setup: $(PYTHON) cannot make a virtual environment; on Debian install python3-venv" >&2; \
		rm -rf .venv; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--build-constraint constraints.txt --editable '.[controller]' --group dev
	@touch $@

.PHONY: broken
broken:

##@ Code

gen: $(STAMP) ## Generate CRDs and models from the schema sources
	$(BIN)/python -m trainsnap_codegen gen

fmt: $(STAMP) ## Format the code and sort its imports
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix --select I $(CODE)

lint: $(STAMP) ## Check format and style
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: $(STAMP) ## Check types, strictly
	$(BIN)/mypy

layers: $(STAMP) ## Check that imports go down the layers only
	$(BIN)/lint-imports

files: $(STAMP) ## Check length and first line of every hand-written file
	$(BIN)/python tools/check_files.py

fresh: gen ## Check that generated files are what is committed, with nothing untracked among them
	@git diff --exit-code --stat -- $(wildcard $(GENERATED)) || { \
		echo "make fresh: generated files differ from what is committed: commit what make gen wrote" >&2; exit 1; }
	@untracked="$$(git ls-files --others --exclude-standard -- $(wildcard $(GENERATED)))"; \
	test -z "$$untracked" || { echo "make fresh: not committed: $$untracked" >&2; exit 1; }

# Generating comes first and alone; what follows only looks.
verify: ## Check everything that needs no test run: generated files, format, lint, types, layers, files
	@$(MAKE) --no-print-directory fresh
	@$(MAKE) --no-print-directory lint types layers files

##@ Tests

unit: $(STAMP) ## Run the tests that need no cluster
	$(BIN)/pytest -n 2 tests/unit tests/property tests/protocol $(ARGS)

integration: $(STAMP) plane-built ## Run the tests on etcd and kube-apiserver
	$(BIN)/pytest tests/integration $(ARGS)

e2e: $(STAMP) plane-built ## Run the tests on the full plane
	$(BIN)/pytest tests/e2e $(ARGS)

test: $(STAMP) plane-built ## Run all tests (CLUSTER=FILE: against the cluster behind that kubeconfig)
	$(BIN)/pytest -n 2 tests/unit tests/property tests/protocol $(ARGS)
	$(BIN)/pytest tests/integration tests/e2e $(ARGS)

bench-migrate: $(STAMP) plane-built ## Compare the rate of a migration with bare creates of the same objects
	PYTHONPATH=tests $(BIN)/python -P tests/bench/bench_migrate.py $(ARGS)

bench: $(STAMP) plane-built ## Measure the operator: jobs per second, CPU and requests per job, memory, restart
	PYTHONPATH=tests $(BIN)/python -P tests/bench/bench_operator.py $(ARGS)

bench-client: $(STAMP) ## Compare the models with the published client: import, memory, parsing
	$(BIN)/python tests/bench/bench_client.py

##@ A plane to work with

.PHONY: plane-built
plane-built: $(STAMP)
	@$(if $(CLUSTER),test -r "$$TRAINSNAP_TEST_CLUSTER" || { echo make: cannot read CLUSTER=$(call quoted,$(CLUSTER)) >&2; exit 1; },tools/plane build >/dev/null)

plane: $(STAMP) ## Start a plane (DIR=.plane PROFILE=full); `make plane-down` stops it
	tools/plane up --dir $(call quoted,$(DIR)) --profile $(call quoted,$(PROFILE))

plane-down: $(STAMP) ## Stop the plane that `make plane` started
	tools/plane down --dir $(call quoted,$(DIR))

demo: $(STAMP) ## Show the main job, step by step, on a plane of its own (KEEP=1 leaves it running)
	$(BIN)/python tools/demo.py $(if $(KEEP),--keep)

clean: ## Remove what was built in this folder; the plane's cache stays
	@test ! -e $(call quoted,$(DIR))/plane.json || tools/plane down --dir $(call quoted,$(DIR))
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
