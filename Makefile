# Everything a contributor runs. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := compile vgg16 --machine sw26010 --batch 128 -o out/vgg16 --check-each-algorithm

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fuzz bench bench-tuning bench-quality bench-boundary clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/installed-dev ## create .venv with everything for development

demo: $(VENV)/installed ## tune, generate and check every layer of VGG-16 for the SW26010
	$(BIN)/tilewright $(DEMO)

test: $(VENV)/installed-dev ## run the test suite on two processes
	$(BIN)/pytest -n 2

check: $(VENV)/installed-dev ## lint, format, types, layers, size budgets
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/architecture

fuzz: $(VENV)/installed-dev ## run the property tests with many more examples
	$(BIN)/pytest -n 2 -m hypothesis --hypothesis-profile=fuzz

bench: $(VENV)/installed-bench ## run every script in benchmarks/, briefly where it has --quick
	set -e; for script in benchmarks/*.py; do echo "== $$script"; \
	  quick=$$(grep -q -e '"--quick"' $$script && echo --quick || true); \
	  PYTHONPATH=tests $(BIN)/python $$script $$quick; done

bench-tuning: $(VENV)/installed-bench ## seconds to rank every schedule of VGG-16
	$(BIN)/python benchmarks/tuning_speed.py

bench-quality: $(VENV)/installed-bench ## what trusting the model loses, 225 convolutions (an hour)
	$(BIN)/python benchmarks/search_quality.py

bench-boundary: $(VENV)/installed-bench ## what boundaries cost, 216 matrix products
	$(BIN)/python benchmarks/boundary.py

clean: ## remove the environment, caches and outputs
	rm -rf $(VENV) out build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@ $(VENV)/installed
