# Everything runs in .venv, which the first target that needs it sets up. Python 3.11+ and make are all it takes.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The newest Python that fits. A name may be there without a Python behind it, so each is tried.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

.DEFAULT_GOAL := help
.PHONY: help install local-model run test check fmt bench docs clean

help:
	@echo "make run     run the main example on the embedded model; ARGS='--model openai/gpt-5' for another"
	@echo "make test    everything that CI checks: lint, format, types, tests"
	@echo "make check   lint, format and types only"
	@echo "make fmt     format, and fix what can be fixed"
	@echo "make bench   measure speed against a bare asyncio loop; ARGS='--json' for one object"
	@echo "make docs    write the reference from the docstrings into site/"
	@echo "make clean   remove .venv, caches and what was built"

install: $(READY)

# The marker is newer than pyproject.toml for as long as the installed dependencies are those that it names.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and neither python3.11 nor a later one is here." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		echo "Setting up $(VENV) with $$($(PYTHON) --version); this takes a minute, once." >&2; \
		$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

local-model: $(READY)
	@$(BIN)/interlock local install

run: local-model
	@$(BIN)/python examples/support_agent.py $(ARGS)

test: check local-model
	@$(BIN)/pytest -q $(ARGS)

check: $(READY)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

fmt: $(READY)
	@$(BIN)/ruff check --fix --exit-zero -q
	@$(BIN)/ruff format

bench: $(READY)
	@$(BIN)/python -m benchmarks core $(ARGS)

docs: $(READY)
	@mkdir -p site
	@cd site && ../$(BIN)/python -c "import pkgutil, pydoc, interlock; \
		names = [m.name for m in pkgutil.walk_packages(interlock.__path__, 'interlock.') if '._' not in m.name]; \
		[pydoc.writedoc(name) for name in ['interlock', *names]]" >/dev/null
	@echo "The reference is in site/interlock.html"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
