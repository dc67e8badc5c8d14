# make help lists the targets. Everything runs in .venv, which the first target that needs
# it sets up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests at a time: as many as there are cores.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help venv run test static lint format lit pytest docs clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("attnpass needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

venv: $(STAMP) ## set up .venv with attnpass and its tools

run: $(STAMP) ## compile and run a transformer layer with and without the passes
	$(BIN)/python -m bench.demo

# BEFORE_PYTEST: a command that pytest waits for (.ci/run installs front ends meanwhile).
test: static ## all checks: lint, lit, pytest
	$(BEFORE_PYTEST)
	$(MAKE) pytest

# At once: pyright keeps one core busy.
static: $(STAMP)
	$(MAKE) --jobs=2 lint lit

lint: $(STAMP) ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(STAMP) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lit: $(STAMP) ## the FileCheck tests
	$(BIN)/lit -sv -j $(JOBS) test

pytest: $(STAMP) ## unit, end-to-end and property tests
	$(BIN)/pytest -rs -n $(JOBS) --dist loadfile --no-loadscope-reorder

docs: $(STAMP) ## build the site of docs/ into build/site
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo build/site/index.html

clean: ## remove .venv and caches
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis *.egg-info
