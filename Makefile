# Everything a fresh clone needs: `make run` shows Millstream at work, `make test` checks it.
# Set-up happens by itself, once: a virtual environment in .venv and, only if there is none, a Java runtime.

PYTHON ?=
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
JAVA   := sh scripts/with-java

.DEFAULT_GOAL := help
.PHONY: help run test check fuzz nightly bench clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

run: $(READY)  ## install what is missing, then the demo on embedded Spark
	@$(JAVA) $(BIN)/millstream demo

# fast things first; make stops at the first group that fails
test: check  ## everything: what `make check` does, then the tests that need Spark
	@echo "== tests on Spark"
	@$(JAVA) $(BIN)/pytest -n 2 --dist loadfile -m "spark and not nightly"

check: $(READY)  ## format, lint, types, import directions, and the tests that need no Java
	@echo "== format and lint"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@echo "== types"
	@$(BIN)/mypy
	@echo "== import directions"
	@$(BIN)/lint-imports --no-logo > $(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@echo "== tests without Java"
	@$(BIN)/pytest -n auto --dist worksteal -m "not spark and not nightly"

fuzz: $(READY)  ## the property tests on new random cases, twenty times as many through the whole engine: takes hours
	@MILLSTREAM_EXAMPLES=20 $(BIN)/pytest -n auto --dist worksteal -m "not spark and not nightly" --hypothesis-profile=fuzz tests/property

nightly: $(READY)  ## what takes too long for every commit: random kills by the hundred, and a soak of half an hour
	@$(JAVA) $(BIN)/pytest -m nightly --timeout=0

bench: $(READY)  ## Millstream beside the peers that are installed (millstream bench --install all)
	@$(JAVA) $(BIN)/millstream bench

clean:  ## remove the environment and everything that can be made again
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml scripts/make-environment
	@PYTHON="$(PYTHON)" sh scripts/make-environment $(VENV)
	@touch $@
