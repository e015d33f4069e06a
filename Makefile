# Every target does the set-up it needs; only Python 3.11 or newer and make have to be there.
#   make demo     show the product at work          make test     run the tests
#   make help     list the rest
# Settings: PYTHON=<interpreter>  WORKERS=<test processes, one more than cores>  ARGS=<passed on to the command>  VERSION=<of the site>

SHELL   := /bin/sh
VENV    := .venv
READY   := $(VENV)/ready
WORKERS ?= auto
ARGS    ?=
VERSION ?= $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/tidings/_version.py)

# The environment's own interpreter, and Java for Spark where the machine has none.
RUN     := . $(VENV)/environment && $(VENV)/bin/python

# A copied or moved tree keeps a .venv that points elsewhere: then it is made anew.
INTACT  := $(shell sh scripts/intact.sh $(VENV) || echo stale)

.DEFAULT_GOAL := help
.PHONY: help setup demo test nightly repeat lint format bench soak studies docs site release clean stale

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 18

$(READY): pyproject.toml constraints.txt scripts/setup.py $(INTACT)
	@python=$$(PYTHON="$(PYTHON)" sh scripts/find_python.sh) && "$$python" scripts/setup.py $(VENV)

stale:

setup: $(READY) ## make .venv and install everything
	@echo "$(VENV) is ready"

demo: $(READY) ## show the product at work, in one to two minutes
	@$(RUN) -m tidings demo $(ARGS)

# Names have one order in every process, so that a run depends on the code alone. Bytecode is kept even where the
# environment says otherwise: the tests start hundreds of processes, and each would compile the package again.
TEST    := -m pytest -n $(WORKERS) --maxprocesses 8 --dist loadgroup -m "not soak"

test: $(READY) ## run the tests, the same examples every time (soak tests apart)
	@PYTHONHASHSEED=0; PYTHONDONTWRITEBYTECODE=; export PYTHONHASHSEED PYTHONDONTWRITEBYTECODE; $(RUN) $(TEST) $(ARGS)

nightly: $(READY) ## run the tests on newly drawn examples (TEST_SEED=<number> repeats a night)
	@TEST_SEED=$${TEST_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; PYTHONHASHSEED=$$TEST_SEED; \
	PYTHONDONTWRITEBYTECODE=; export TEST_SEED PYTHONHASHSEED PYTHONDONTWRITEBYTECODE; echo "TEST_SEED=$$TEST_SEED"; $(RUN) $(TEST) $(ARGS); \
	ended=$$?; echo "TEST_SEED=$$TEST_SEED"; exit $$ended

repeat: $(READY) ## run the tests five times, one with one worker and one beside a busy machine, and print a table
	@$(RUN) scripts/repeat.py $(ARGS)

lint: $(READY) ## ruff and mypy --strict
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

format: $(READY) ## let ruff rewrite what it can
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

bench: $(READY) ## run the benchmarks beside their peers
	@$(RUN) -m tidings bench --all $(ARGS)

soak: $(READY) ## run the long campaign, part by part (scripts/soak.py --list)
	@$(RUN) scripts/soak.py $(ARGS)

studies: $(READY) ## run every study and write report/index.html (ARGS=--quick for minutes)
	@$(RUN) -m tidings study report $(ARGS)

docs: $(READY) ## regenerate the generated pages and check every link
	@$(RUN) scripts/docs.py $(ARGS)

# Without --quiet, which silences warnings before strict mode counts them. MkDocs Material prints a notice about its successor on every build; the versions here are pinned.
site: $(READY) ## build the documentation site (site/VERSION; VERSION=<name> for another than the package's)
	@$(RUN) scripts/docs.py --check
	@VERSION="$(VERSION)"; NO_MKDOCS_2_WARNING=1; export VERSION NO_MKDOCS_2_WARNING; $(RUN) -m mkdocs build --strict --site-dir "site/$(VERSION)" $(ARGS)
	@echo "site/index.html leads to site/$(VERSION)"

release: $(READY) ## build wheels and source distributions of all packages into dist/, and check them
	@$(RUN) scripts/release.py $(ARGS)

clean: ## remove the environment, caches and build output
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests scripts lab quality benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
