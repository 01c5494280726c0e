# The commands of this repository; `make` alone lists them. Versions stand in requirements/lock.txt.

# That of .venv, else the first that runs: one that a version manager has, but not chosen, does not.
MINORS := $(patsubst .venv/bin/python3.%,%,$(wildcard .venv/bin/python3.*)) 11 12 13
PYTHON ?= $(or $(firstword $(foreach minor,$(MINORS),$(shell python3.$(minor) -c "print('python3.$(minor)')" 2> /dev/null))),python3.11)
STUDY ?= clinic
CORES ?= all
PORT ?= 5000
MLFLOW_TRACKING_URI ?= sqlite:///results/mlflow.db

VARIABLES := PYTHON STUDY CORES PORT SET MLFLOW_TRACKING_URI
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
ifneq ($(filter-out $(VARIABLES),$(GIVEN)),)
$(error unknown variable $(filter-out $(VARIABLES),$(GIVEN)); known are $(VARIABLES))
endif

ifeq ($(origin PYTHON) $(wildcard .venv/packages.stamp),command line .venv/packages.stamp)
VERSION := -c "import sys; print(*sys.version_info[:2], sep='.')"
ifneq ($(shell $(PYTHON) $(VERSION)),$(shell .venv/bin/python $(VERSION)))
$(error .venv is of Python $(shell .venv/bin/python $(VERSION)), not of $(PYTHON): remove .venv to make it anew)
endif
endif

# The method of SET="pcqc.beta=0.5 pcqc.rl.learning_rate=0.001".
VARIED := $(firstword $(subst ., ,$(SET)))

# The models are small: one thread a job, and jobs side by side. Hash order and tokenisers' threads
# are fixed, so that a rerun meets the same conditions.
export OMP_NUM_THREADS := 1
export OMP_WAIT_POLICY := passive
export TOKENIZERS_PARALLELISM := false
export PYTHONHASHSEED := 0
export MLFLOW_DISABLE_TELEMETRY := true
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Many images set it. Without bytecode every job compiles torch anew, half a minute on a slow core.
unexport PYTHONDONTWRITEBYTECODE

PACKAGES := .venv/packages.stamp
PROJECT := .venv/project.stamp
TRITON := .venv/triton
SPHINX := .venv/site.stamp
NOTEBOOK := .venv/notebook
STUDIED := results/site/study/results/clinic-full/report.html

.DEFAULT_GOAL := help
.PHONY: help env gpu trackers results bundle test test-slow test-numerical test-runner test-long bench lint ui notebook site lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  STUDY=$(STUDY) chooses a study of config/studies/, CORES=$(CORES) the cores for it, PORT=$(PORT) the UI's port."
	@echo "  SET=pcqc.beta=0.5 makes PCQC with another setting."

env: $(PROJECT) ## make .venv from requirements/lock.txt

$(PACKAGES): requirements/lock.txt requirements/install.py
	@command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) not found: install Python 3.11, 3.12 or 3.13, or name it: make env PYTHON=..."; exit 2; }
	$(PYTHON) requirements/install.py --afresh

$(PROJECT): $(PACKAGES) pyproject.toml
	.venv/bin/python -m uv pip install --quiet --no-deps --no-build-isolation --editable . --editable packages/turn_credit --editable packages/clinic_env --python .venv/bin/python
	@touch $@

$(TRITON): $(PACKAGES) requirements/triton.txt
	.venv/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: --upgrade --target $@ --requirement requirements/triton.txt
	@touch $@

gpu: env ## replace vLLM's CPU build in .venv by the one for NVIDIA GPUs
	.venv/bin/python requirements/install.py --gpu

trackers: env ## add the trackers that a study may report to: W&B, trackio, TensorBoard
	.venv/bin/python requirements/install.py --trackers

results: env ## run a study up to its report, or with SET a variation beside its method; after a stop, go on
ifeq ($(SET),)
	snakemake --cores $(CORES) --config study=$(STUDY)
else
	@told=$$(pcqc vary $(VARIED) --study $(STUDY) $(SET:$(VARIED).%=--set %)) || exit; \
	name=$${told%% *}; \
	snakemake --cores $(CORES) $$name $(VARIED) --config study=$(STUDY) && pcqc answer $(STUDY) $$name $(VARIED)
endif

bundle: env ## pack a finished study for a release: results/bundle/STUDY
	pcqc archive $(STUDY) --bundle

test: env ## run all tests but the slow and the long ones
	pytest -n 2 --dist worksteal -m "not long and not slow"

test-slow: env ## run the tests that take four seconds or more, or see what quicker ones see too
	pytest -n 2 --dist worksteal -m slow

test-numerical: env ## run the tests that compute with torch, without AVX
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
	pytest -n 2 --dist worksteal -m "numerical and not long and not slow" tests/unit/test_engines.py \
	  tests/unit/test_scorer.py tests/integration/test_policy.py tests/integration/test_tree_learner.py

test-runner: env $(TRITON) ## run vLLM's tests on the model runner that GPUs have, in Triton's interpreter
	PYTHONPATH=$(CURDIR)/$(TRITON):$(CURDIR)/tests/interpreted TRITON_INTERPRET=1 pytest tests/integration/test_vllm.py

test-long: env ## run the long tests
	pytest -m long tests
	$(MAKE) test-runner

# The clinic's models are what the benchmarks run on; they are made once.
bench: env ## measure speed beside TRL, vLLM and others; writes results/benchmarks.md
	snakemake --cores $(CORES) --config study=clinic --omit-from train select evaluate -- all
	python -m benchmarks

example-%: env ## test an adapter in an environment of its own: gymnasium, openenv, prime-rl, rllm, sb3, verifiers, verl
	python examples/own_environment.py $*

lint: env ## check style, workflow format, types and who imports whom
	ruff check .
	ruff format --check .
	snakefmt --check .
	mypy
	lint-imports

ui: env ## open MLflow's UI on 127.0.0.1 with every run of every study
	@case "$(MLFLOW_TRACKING_URI)" in \
	  http*) echo "The runs are at $(MLFLOW_TRACKING_URI), which has its own UI."; exit 0 ;; \
	  sqlite:///*) test -f "$(MLFLOW_TRACKING_URI:sqlite:///%=%)" || { echo "No runs yet: make results first."; exit 2; } ;; \
	esac; \
	python -c "import sys; sys.exit(not 0 < int(sys.argv[1]) < 65536)" "$(PORT)" 2> /dev/null || \
	  { echo "PORT=$(PORT): a port is a number from 1 to 65535; choose one: make ui PORT=5001" >&2; exit 2; }; \
	python -c "import socket; s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', $(PORT)))" 2> /dev/null || \
	  { echo "port $(PORT) cannot be used: another program has it; choose another one: make ui PORT=5001" >&2; exit 2; }; \
	RUNS=$$(python -c "import sqlite3, sys; print(*(sqlite3.connect(sys.argv[1]).execute(sys.argv[2], sys.argv[3:]).fetchone() or ['']))" \
	  "$(MLFLOW_TRACKING_URI:sqlite:///%=%)" "SELECT '/' || experiment_id || '/runs?workflowType=machine_learning' || \
	  ifnull((SELECT '&viewStateShareKey=results' FROM experiment_tags AS tags WHERE tags.experiment_id = experiments.experiment_id \
	  AND key = 'mlflow.sharedViewState.results'), '') FROM experiments WHERE name = ?" "$(STUDY)" 2> /dev/null); \
	echo "Open http://127.0.0.1:$(PORT)/#/experiments$${RUNS:-?workflowType=machine_learning}"; \
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false exec mlflow ui --host 127.0.0.1 --port $(PORT) --workers 1 --backend-store-uri "$(MLFLOW_TRACKING_URI)"

# Jupyter lies in a folder of its own too; no job looks there.
$(NOTEBOOK): $(PACKAGES)
	.venv/bin/python -m uv pip install --quiet --only-binary :all: --exclude-newer 2026-11-01 --target $@ --python .venv/bin/python ipykernel notebook

notebook: env $(NOTEBOOK) ## open examples/look_at_a_run.ipynb in Jupyter, on 127.0.0.1
	PYTHONPATH=.venv/notebook python -m notebook --ip 127.0.0.1 examples/look_at_a_run.ipynb

# Sphinx lies in a folder of its own, which only this command looks into.
$(SPHINX): $(PACKAGES) requirements/site.txt
	.venv/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: --upgrade --target .venv/site --requirement requirements/site.txt
	@touch $@

$(STUDIED): $(wildcard results/archive/clinic-full*.tar.xz analysis/*.* analysis/*/*.*) | env
	rm -rf results/site/study
	mkdir -p results/site/study
	cd results/site/study && pcqc restore clinic-full

site: env $(SPHINX) $(STUDIED) ## build the site of these pages in results/site/html, with the report of clinic-full
	rm -rf results/site/html
	PYTHONPATH=.venv/site python -m sphinx --quiet --fail-on-warning --keep-going -b html -d results/site/cache -c docs/site . results/site/html
	cp results/site/html/README.html results/site/html/index.html

lock: env ## rewrite requirements/lock.txt, site.txt and trackers.txt from the .in files
	.venv/bin/python requirements/install.py --relock

clean: ## remove .venv, caches and every result but the archive
	rm -rf .venv .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache src/*.egg-info packages/*/src/*.egg-info
	find results -mindepth 1 -maxdepth 1 ! -name README.md ! -name archive -exec rm -rf {} +
