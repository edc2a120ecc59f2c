# make setup      build .venv (about 3 minutes; once, and again when requirements change)
# make demo       five strategies on a real small model
# make test       everything; engine tests load the model and run one after another
# make test-fast  what needs no model and is not marked slow, on all cores; under a minute on two
# make test-extras  launchers, sweepers and trackers of others, and the site, in an environment of its own (.venv-extras)
# make docs       the documentation as a site in site/html, with an environment of its own (.venv-docs)
# make lint       ruff and mypy

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := .venv-extras
DOCS := .venv-docs
# Compiling every file of torch and vLLM takes a minute; Python compiles the few that are used by itself.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
GPU := $(shell nvidia-smi >/dev/null 2>&1 && echo yes)
# Each property on fewer examples than it asks for; `make test` has them all.
FEWER := --most-examples 10
SIDE_BY_SIDE := $(BIN)/python tests/side_by_side.py
TESTS := not extras$(if $(GPU),, and not gpu)

# Without it vLLM may drop to one thread; two engines at once would slow each other down many times.
export OMP_NUM_THREADS ?= $(shell nproc)
# With it every process would compile all tests anew, ten seconds each, and so would every process they start.
unexport PYTHONDONTWRITEBYTECODE
.NOTPARALLEL:

.PHONY: setup demo test test-fast test-extras docs lint
setup: $(READY)

$(READY): requirements/cpu.txt requirements/dev.txt pyproject.toml
	@rm -f $@
	@echo "== virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
ifeq ($(GPU),yes)
	@echo "== vLLM for CUDA, and ttsflow (downloads several GB)"
	@$(PIP) -r requirements/dev.txt -e '.[cuda,demo,plot,report,parquet]'
else
	@echo "== torch for CPU (1 of 3)"
	@$(PIP) --no-deps torch==2.13.0
	@echo "== vLLM for CPU and what it needs (2 of 3, the longest)"
	@$(PIP) --no-deps -r requirements/cpu.txt
	@echo "== ttsflow (3 of 3)"
	@$(PIP) --no-deps --no-build-isolation -e .
endif
	@touch $@
	@echo "== ready: $(BIN)/ttsflow"

demo: setup
	$(BIN)/python benchmarks/demo.py

test: setup
	$(SIDE_BY_SIDE) -m "$(TESTS)"

test-fast: setup
	$(SIDE_BY_SIDE) $(FEWER) -m "not engine and not install and not slow and not gpu and not extras"

test-extras: $(EXTRAS)/.ready
	$(EXTRAS)/bin/python -m pytest -m extras tests/extras

docs: $(DOCS)/.ready
	$(DOCS)/bin/python docs/site/build.py site

# Both environments are made of the requirements that have their name.
$(EXTRAS)/.ready $(DOCS)/.ready: .venv-%/.ready: requirements/%.txt pyproject.toml
	@rm -f $@
	@echo "== virtual environment in $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< -e .
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
