# Everything a person does with the repository, one word each.  `make` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo up stop down status test rest test-all lint types core conformance integration replay \
	chaos faults changes engine e2e browser format bench fuzz soak docs lock wheel clean

# The first that runs and is new enough; else python3, whose age is then reported.
PYTHON ?= $(shell for each in python3.13 python3.12 python3.11 python3; do \
  $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$each \
  && exit; done; echo python3)
VENV ?= .venv
PIPELINE ?= examples.game
PORT ?=
SERVICE ?=
# Processes that run tests; each takes about a core, and has a Kafka of its own where one is needed.
# Tests on Kafka wait for it more than they work: there are twice as many of them.
JOBS ?= 2
SPREAD := -n $(JOBS) --dist worksteal
# Where a process crashes, pytest-xdist 3.8 makes another one, and may then wait for it forever.
BY_SCOPE := --dist loadscope --max-worker-restart 0
# A process takes a file at a time, by name: the two longest come first.
BY_FILE := --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Which tests of a tier, by their marks: `make integration ONLY=long`; all of them where it is empty.
ONLY ?=
RECORDS ?= 1000000
RUNS ?= 2
SEED ?= 1
MINUTES ?= 30
RATE ?= 20000
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)
READY := $(VENV)/.ready
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -q -o cache_dir=$(CURDIR)/var/pytest/$@ $(if $(ONLY),-m "$(ONLY)")
# Other work on the cores can make a test too slow.  So tests that fail run once more, one by one;
# var/failed-once names them.  Where they fail again, or pytest itself fails, the tier fails.
define PYTEST_TWICE
$(PYTEST) $(1) || { [ $$? = 1 ]; cat var/pytest/$@/v/cache/lastfailed | tee -a var/failed-once; \
	  $(PYTEST) $(1) -n 0 --last-failed --last-failed-no-failures none; }
endef

help:  ## list the commands
	@sed -n 's/^\([a-z0-9-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(READY)  ## make the virtual environment, fetch Kafka, find or install Java
	@$(BIN)/python -m tidemark.embedded.setup

$(READY): requirements.lock pyproject.toml $(wildcard tidemark/native/*.[ch])
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo \
	  "Tidemark needs Python 3.11 or newer, this is $$("$(PYTHON)" -V): make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "installing into $(VENV) with $$("$(PYTHON)" -V): a minute or two, once"
	@[ -x $(BIN)/python ] || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m tidemark.native
	@touch $@

demo: setup  ## run PIPELINE, an example, on a Kafka of its own, show it, stop it
	@$(BIN)/python -m examples.demo $(PIPELINE)

up: setup  ## start Kafka and the services of PIPELINE, keep them running
	@$(BIN)/python -m tidemark.embedded up $(PIPELINE) $(if $(PORT),--port $(PORT))

stop: $(READY)  ## stop the services but not Kafka, for a reset; SERVICE=NAME: only that one
	@$(BIN)/python -m tidemark.embedded stop $(SERVICE)

down: $(READY)  ## stop what `up` started; its data stays in var/
	@$(BIN)/python -m tidemark.embedded down

status: $(READY)  ## show what runs
	@$(BIN)/python -m tidemark.embedded status

test: ONLY = not long
test: SEED = 43
test: setup lint types core conformance integration replay chaos  ## run a part of each tier: 8 minutes on two cores
	@echo "left out: e2e, which needs a Docker engine$(if $(ONLY), and the long tests: make rest,: make e2e)"

rest: ONLY = long
rest: engine setup integration replay e2e  ## run what `test` leaves out; needs a Docker engine

# In one pass: the brokers, Spark and the live results that tests share are then made once.
test-all: engine  ## run all tests; needs a Docker engine
	@$(MAKE) test ONLY=
	@$(MAKE) e2e
	@$(MAKE) browser

lint: $(READY)  ## check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)  ## check types
	$(BIN)/mypy

core: export POLARS_MAX_THREADS ?= 1
core: $(READY)  ## test the kernel and everything else that needs no Kafka
	$(call PYTEST_TWICE,$(SPREAD) tests --ignore tests/kafka --ignore tests/conformance \
	  --ignore tests/spark --ignore tests/docker --ignore tests/browser)

conformance: $(READY)  ## run the cases of windowing semantics
	$(PYTEST) $(SPREAD) tests/conformance

integration: export POLARS_MAX_THREADS ?= 1
integration: SPREAD = -n $$((2 * $(JOBS))) $(BY_SCOPE)
integration: setup  ## test against a real Kafka
	$(call PYTEST_TWICE,$(SPREAD) tests/kafka)

chaos: setup  ## kill and freeze services and brokers, RUNS times; deploy changes between kills
	@$(MAKE) --no-print-directory -j 2 faults changes RUNS=$(RUNS) SEED=$(SEED) JOBS=$(JOBS)

faults:
	$(BIN)/python -m tests.chaos --runs $(RUNS) --seed $(SEED) --jobs $(JOBS)

changes:
	$(BIN)/python -m tests.chaos.changes --seed $(SEED) --steps 4

# Processes of Spark wait for one another: two of them leave a third of two cores idle.
replay: setup  ## test replays on Spark against live results
	$(call PYTEST_TWICE,-n $$(($(JOBS) + 1)) $(BY_SCOPE) tests/spark)

engine:
	@docker info >/dev/null 2>&1 || { echo \
	  "these tests need a Docker engine, and \`docker info\` finds none: make test runs without" >&2; exit 2; }

e2e: ONLY =
e2e: engine setup  ## test docker-compose.yml and PostgreSQL; needs a Docker engine
	$(BIN)/python -m tests.docker.support.image
	$(call PYTEST_TWICE,-n $(JOBS) $(BY_FILE) tests/docker)

browser: setup  ## test the monitor's page in Chromium; installs it by apt where it is missing
	@command -v chromium >/dev/null || { $(SUDO) apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends chromium; } >/dev/null
	$(call PYTEST_TWICE,tests/browser)

format: $(READY)  ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## measure the speed; see bench/
	$(BIN)/python -m bench
	$(BIN)/python -m bench.latency --rate $(RATE)

fuzz: setup  ## send RECORDS hostile records of SEED through ingest, and judge each of them
	@$(BIN)/python -m tests.fuzz --records $(RECORDS) --kafka $(RECORDS) --seed $(SEED)

soak: setup  ## run a pipeline for MINUTES at RATE records per second; memory must not grow
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --rate $(RATE) --seed $(SEED)

# The site has packages of its own, which no test and no service needs.
$(VENV)-docs/.ready: docs.lock
	@[ -x $(VENV)-docs/bin/python ] || "$(PYTHON)" -m venv $(VENV)-docs
	@$(VENV)-docs/bin/python -m pip install --quiet --require-hashes -r docs.lock
	@touch $@

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)-docs/.ready  ## build the site of the documentation into build/site; a broken link fails
	@$(VENV)-docs/bin/mkdocs build --quiet
	@echo "build/site/index.html"

COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
  --custom-compile-command "make lock" --upgrade

lock:  ## write the lock files anew (needs uv): of the tests, the images, the site
	@command -v uv >/dev/null || { echo "uv is not on the PATH: pip install uv" >&2; exit 2; }
	$(COMPILE) --extra embedded --extra monitor --extra protobuf --extra registry --extra sinks --extra spark --extra testing --group dev -o requirements.lock
	$(COMPILE) --extra monitor --extra protobuf --extra registry --extra sinks --group build -c requirements.lock -o image.lock
	$(COMPILE) --extra protobuf --extra registry --extra sinks --extra spark --group build -c requirements.lock -o replay.lock
	$(COMPILE:pyproject.toml=) --group docs -o docs.lock

wheel: $(READY)  ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean: down  ## stop everything; remove what was made, except the cache of Kafka's jars
	rm -rf var dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis $(VENV) $(VENV)-docs
