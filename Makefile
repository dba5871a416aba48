# Two commands do everything on a fresh machine with Python 3.11+, pip and make:
#   make demo   install into .venv and run the main job on an embedded data set
#   make test   the same with test tools, then lint, types and all tests
# While you work, make quick runs the tests that are not marked as slow.
PYTHON ?= python3
BIN := .venv/bin
PIP_FLAGS ?= --quiet --disable-pip-version-check
TESTS ?= tests src

.PHONY: demo test quick coverage lint types unit bench site clean

.venv/installed: pyproject.toml setup.py $(wildcard src/hashlearn/*/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install $(PIP_FLAGS) -e .
	touch $@

.venv/test-installed: .venv/installed
	$(BIN)/pip install $(PIP_FLAGS) -e '.[test]'
	touch $@

.venv/docs-installed: .venv/installed
	$(BIN)/pip install $(PIP_FLAGS) -e '.[docs]'
	touch $@

demo: .venv/installed
	$(BIN)/hashlearn demo

test: lint types unit

lint: .venv/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test-installed
	$(BIN)/mypy

# Three processes for two cores: tests with servers wait most of the time.
unit: .venv/test-installed
	$(BIN)/python -m pytest -n 3 --dist loadfile $(TESTS)

quick: .venv/test-installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(TESTS)

# All tests, then the share of lines that they ran. Not part of make test: with Python 3.11 it makes tests take about 1.3 times
# as long. From 3.12 on Python itself counts lines (sysmon), which costs little.
coverage: .venv/test-installed
	COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")') \
	$(BIN)/python -m pytest -n 3 --dist loadfile --cov --cov-report=term $(TESTS)

bench: .venv/test-installed
	for script in fit evaluate encode imports; do $(BIN)/python benchmarks/$$script.py || exit 1; done

# The documentation as a site, in site/. A broken link or reference is an error.
site: .venv/docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:
	rm -rf .venv site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
