# Two commands on a fresh machine: `make demo` and `make test`. Both create .venv and install the project into it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PARALLEL := -n auto --maxprocesses=4 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format bench chaos docs clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(READY)  ## create .venv and install varnet into it

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev,sweep,rl,export]'
	@touch $@

demo: $(READY)  ## see a phase transition: LeNet-5 on embedded data, about a minute
	$(BIN)/python train.py experiment=demo

test: $(READY)  ## the tests that take minutes
	$(BIN)/python -m pytest -m "not slow" $(PARALLEL)

test-all: $(READY)  ## every test, the slow ones included
	$(BIN)/python -m pytest -m "not slow" $(PARALLEL)
	$(BIN)/python -m pytest -m slow

lint: $(READY)  ## check style, and the types of the public names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## apply style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## measure speed as ratios within one run
	$(BIN)/python scripts/bench.py layers
	$(BIN)/python scripts/bench.py data
	$(BIN)/python scripts/bench.py step
	$(BIN)/python scripts/bench.py evaluation
	$(BIN)/python scripts/bench.py attack
	$(BIN)/python scripts/bench.py compress

chaos: $(READY)  ## faults without an end: kills, file systems that fail, flipped bits, random input; MINUTES=60
	$(BIN)/python -m tests.chaos minutes=$(or $(MINUTES),60)

docs: .venv/.docs  ## build the documentation: site/index.html, to be read without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

.venv/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

clean:  ## remove .venv (runs and data stay)
	rm -rf .venv
