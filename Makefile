# Two commands are all a newcomer needs: `make demo` and `make test`. Both set up .venv on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NEWEST := .venv-newest
SITE := .venv-site
TORCH ?= torch
TORCH_TESTS := tests/capture tests/precompile tests/sample_backends tests/stages tests/worker tests/golden_gpu tests/test_generated_code.py
VIRTUAL_GPUS := virtual-gpu-h100 virtual-gpu-a100 virtual-gpu-mi300x
READY := $(VENV)/.ready
DEMO ?= sample_models/transformer.py

# Or each of the hundreds of processes that the tests start would compile the whole package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick exhaustive fuzz fuzz-logs fuzz-profiles fuzz-folders fuzz-terminal newest newest-torch newest-gpu virtual-gpu $(VIRTUAL_GPUS) lint format types contracts wheel docs site snapshots clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(READY) ## open the app on a sample (DEMO=sample_models/mlp.py for another one)
	$(BIN)/fx-explorer $(DEMO)

test: $(READY) ## run the tests, three at a time (ARGS="-k breaks" for some of them)
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

quick: $(READY) ## the tests that your change concerns, the nearest first, in a minute (ARGS="--seconds 120")
	$(BIN)/python -m tests.quick $(ARGS)

exhaustive: $(READY) ## the tests with all cases of which make test has a sample, for hours (ARGS as for test)
	FX_EXPLORER_EXHAUSTIVE=1 $(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

fuzz-logs: $(READY) ## damage logs of torch by chance for a long time (ARGS="--rounds 1000000 --seed 7")
	$(BIN)/python -m tests.readers.torch_trace.mutating $(ARGS)

fuzz-profiles: $(READY) ## damage traces of torch.profiler by chance (ARGS="--rounds 1000000 --seed 7")
	$(BIN)/python -m tests.readers.kineto.mutating $(ARGS)

fuzz-folders: $(READY) ## compare the ranks of folders with damaged logs (ARGS="--logs 100000 --seed 7")
	$(BIN)/python -m tests.ranks.folder_fuzzing $(ARGS)

fuzz-terminal: $(READY) ## type random bytes into the app, at three sizes (ARGS="--bytes 20000 --seed 7")
	$(BIN)/python -m tests.tui.terminal_fuzzing $(ARGS)

fuzz: $(READY) ## damage sessions by chance for a long time (ARGS="--rounds 100000 --seed 7 good.fxs")
	$(BIN)/python -m tests.session.fuzzing $(ARGS)

newest: $(NEWEST)/bin/python ## the tests that depend on torch, with its newest release (TORCH=torch==2.11.0 for another; ARGS as for test)
	grep -vE '^(torch|triton)==' constraints.txt > $(NEWEST)/constraints.txt
	$(NEWEST)/bin/python -m pip install --quiet --upgrade -c $(NEWEST)/constraints.txt '$(TORCH)' -e '.[dev]'
	$(NEWEST)/bin/python -c 'import torch; print("torch", torch.__version__)'
	$(NEWEST)/bin/fx-explorer doctor --gpu h100
	$(NEWEST)/bin/python -m pytest $(TORCH_TESTS) $(ARGS)

newest-torch: $(NEWEST)/bin/python ## the newest torch alone, of which only what is imported is compiled to byte-code
	$(NEWEST)/bin/python -m pip install --quiet --no-compile --upgrade '$(TORCH)'

newest-gpu: $(READY) newest-torch ## the check of the GPU that is not there, with the newest torch
	$(BIN)/fx-explorer doctor --gpu h100 --python $(NEWEST)/bin/python

$(NEWEST)/bin/python:
	$(PYTHON) -m venv $(NEWEST)

virtual-gpu: $(VIRTUAL_GPUS) ## the GPU that is not there: every hook found, small programs compiled, attention fused

$(VIRTUAL_GPUS): virtual-gpu-%: $(READY)
	$(BIN)/fx-explorer doctor --gpu $*

lint: $(READY) ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## put the style right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

contracts: $(READY) ## who may import whom
	$(BIN)/lint-imports --no-cache

wheel: $(READY) ## build the wheel and use it without the source tree
	bash .ci/check_wheel $(BIN)/python

docs: $(READY) ## draw the generated parts of docs/: key table, schema of the configuration, screenshots, the recording of the tour
	$(BIN)/python docs/write_keys.py
	$(BIN)/python docs/write_config_schema.py
	$(BIN)/python docs/take_screenshots.py
	$(BIN)/python docs/record_tour.py

site: $(SITE)/.ready ## build the site of docs/ into site/, with its links checked
	$(SITE)/bin/python docs/build_site.py

# A venv of its own: the generator needs an older markdown-it-py than the tests were run with.
$(SITE)/.ready: pyproject.toml
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --upgrade -e '.[docs]'
	touch $@

snapshots: $(READY) ## draw the kept screens anew; then look at them with git diff (tests/tui/screens)
	FX_EXPLORER_EXHAUSTIVE=1 $(BIN)/python -m pytest tests/tui/screens -n 2 --update-screens $(ARGS)

clean: ## forget .venv, .venv-newest, .venv-site and everything built or cached
	rm -rf $(VENV) $(NEWEST) $(SITE) site build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and alone: it is by far the largest, and a plain requirement lets pip take a CPU build where one is offered.
$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@
