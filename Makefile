# Everything runs in an environment of its own, made when first needed. A stamp in it says what has been installed, so the
# second call installs nothing; a changed pyproject.toml or notebook extension does.
#
#   make demo                      make PYTHON=python3.12 VENV=.venv312 test ARGS="tests/schemas -x"

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
MINUTES ?= 10
# One more than there are processors: many tests wait, for processes and for time limits.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

PY        := $(VENV)/bin/python
PIP       := $(PY) -m pip --quiet --disable-pip-version-check
EXTRAS    := test lab,diagrams lab,diagrams,docs browser release
TOOLS     := hypothesis pytest pytest-xdist pytest-timeout pytest-cov coverage nbclient nbformat hatchling mypy ruff pandas-stubs \
             types-PyYAML types-jsonschema numpy pandas pyarrow polars duckdb palmerpenguins
EXTENSION := $(wildcard agf_magics/labextension/*.json agf_magics/labextension/static/*.js)

# The tests start hundreds of processes, and each would compile the package again: 0.25 s a process.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo lab test slow laws mutants coverage lint types size format notebooks docs bench browser browser-tools movie lite test-lite browse-lite dist wheel-check extras colab mcp-servers floors newest vscode vscode-check clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.has-docs,browser,release  ## everything that the other targets need, at once
	@touch $(EXTRAS:%=$(VENV)/.has-%)
	@$(MAKE) --no-print-directory browser-tools

demo: $(VENV)/.has-lab,diagrams  ## run notebooks/quickstart.ipynb with a real kernel; print its result and where its page is
	@$(PY) notebooks/execute.py --into build/demo notebooks/quickstart.ipynb

lab: $(VENV)/.has-lab,diagrams  ## open the notebooks in JupyterLab
	@$(PY) -m jupyterlab notebooks/quickstart.ipynb $(ARGS)

# At most four processes; each gets whole files. WORKERS=0: one process.
test: $(VENV)/.has-test  ## the test suite, without the browser and the slow tests
	@$(PY) -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile $(ARGS)

slow: $(VENV)/.has-test  ## the tests that take seconds each: killed clusters, interrupts at each point, most notebooks
	@$(PY) -m pytest -m slow -n $(WORKERS) --maxprocesses 4 --dist loadfile $(ARGS)

laws: $(VENV)/.has-test  ## the property tests with new random examples for MINUTES (10), in rounds
	@$(PY) -m tests.laws $(MINUTES) $(ARGS)

mutants: $(VENV)/.has-test  ## break random places and run the tests that should notice: make mutants ARGS="60 SEED"
	@$(PY) -m tests.mutants $(ARGS)

coverage: $(VENV)/.has-test  ## the same, with a coverage report (pages in build/coverage)
	@$(PY) -m pytest --cov --cov-report=term --cov-report=html $(ARGS)

lint: $(VENV)/.has-test  ## ruff: rules and format; spelling
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m codespell_lib

size:  ## how large the package is: decisions, lines, files
	@$(PYTHON) -m tests.size

format: $(VENV)/.has-test  ## ruff: apply automatic fixes
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

types: $(VENV)/.has-test  ## mypy --strict for the package; the tests less strictly
	@$(PY) -m mypy

notebooks: $(VENV)/.has-test  ## run all notebooks with a real kernel (pages in build/notebooks)
	@$(PY) notebooks/execute.py --into build/notebooks notebooks/*.ipynb

docs: $(VENV)/.has-lab,diagrams,docs  ## the documentation, into build/docs; a warning is an error
	@$(PY) -m sphinx -q -W --keep-going -a -b html docs build/docs  # -a: the search has the words of pages that are written
	@$(PY) -m docs.search build/docs
	@echo "docs: build/docs/index.html"

bench: $(VENV)/.has-test,bench  ## measure against the limit and the peers; writes docs/benchmarks.md
	@$(PY) -m tests.bench $(ARGS)

browser: browser-tools  ## the tests in a real JupyterLab (screenshots in build/screenshots)
	@$(PY) -m pytest -m browser tests/browser $(ARGS)

# A Chromium that is there is used; else the system's package where we may install it, else Playwright's own.
browser-tools: $(VENV)/.has-browser
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
	  || $(PY) -m playwright install chromium

movie: browser-tools  ## play the first cells of the quickstart in JupyterLab, for the README (docs/_static/first-minute.webp)
	@$(PY) -m tests.browser.movie $(ARGS)

# Pyodide and node come from npm. Wheels of Pyodide's release in build/lite/release replace the stand-in for rpds-py.
lite: $(VENV)/.has-lab,lite  ## a JupyterLite site that needs no server, into build/lite/site
	@$(PY) -m lite.site

test-lite: $(VENV)/.has-lab,lite $(VENV)/.has-test  ## the lessons and the vectors in Pyodide, in node, with JSPI and without
	@$(PY) -m lite.check $(ARGS)

browse-lite: lite browser-tools  ## the site in Chromium: the quickstart, and a run that is resumed after a reload
	@$(PY) -m lite.browse $(ARGS)

dist: $(VENV)/.has-release  ## build the sdist and, from it, the wheel, into dist; check their metadata
	@rm -rf dist
	@mkdir -p build && { $(PY) -m build --outdir dist . >build/dist.log 2>&1 || { cat build/dist.log; exit 1; }; }
	@$(PY) -m twine check --strict dist/*

# A user's installation: the wheel with the dependencies it declares, and nothing else, in an empty environment.
wheel-check: dist  ## install the wheel in an empty environment and load it there
	@$(PY) -m venv --clear build/wheel-check
	@build/wheel-check/bin/python -m pip --quiet --disable-pip-version-check install dist/*.whl
	@cd build/wheel-check && bin/python -m IPython --InteractiveShell.xmode=Plain -c '%load_ext agf_magics' && bin/agf-magics --help >/dev/null
	@echo "wheel: installs and loads"

extras: dist  ## install the wheel with each extra alone in an empty environment, and run what the extra is for
	@$(PY) .ci/extras.py dist/*.whl $(ARGS)

colab: dist  ## install the wheel beside Colab's IPython, ipykernel and ipywidgets, and run the quickstart there
	@$(PY) .ci/colab.py dist/*.whl

mcp-servers: $(VENV)/.has-test  ## three MCP servers of PyPI in one flow, served again to clients of others; needs a network and Node.js
	@$(PY) .ci/mcp_servers.py

# Of the package's own dependencies only: the tools that test it, and the data of users, are the newest ones.
floors:  ## the tests with the oldest dependencies that pyproject.toml allows
	@$(PYTHON) -m venv --clear build/floors
	@build/floors/bin/python -m pip --quiet --disable-pip-version-check install uv
	@build/floors/bin/uv pip install --quiet --python build/floors/bin/python --resolution lowest-direct --editable '.[test]' 'pydantic-evals>=2.62,<3'
	@build/floors/bin/uv pip install --quiet --python build/floors/bin/python --upgrade $(TOOLS)
	@build/floors/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile -k 'not the_model_of_the_page' $(ARGS)

newest:  ## the tests of models with the newest pydantic-ai
	@$(PYTHON) -m venv --clear build/newest
	@build/newest/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[test]'
	@build/newest/bin/python -m pip --quiet --disable-pip-version-check install --upgrade pydantic-ai-slim genai-prices
	@build/newest/bin/python -m pytest tests/catalog tests/engine tests/lifecycle $(ARGS)

# Node's packages are for building only: the bundle has the client of the protocol in it.
NODE = $(abspath $(PY)) $(abspath editors/vscode/check/node.py)

vscode: $(PY)  ## the extension for VS Code, into build/agf-magics.vsix (Node.js, where it is missing, into build/node)
	@mkdir -p build
	@cd editors/vscode && $(NODE) npm install --silent --no-audit --no-fund && $(NODE) npm run --silent package

# By hand, not in CI: building code-server takes some minutes, and 1 GB in build.
vscode-check: vscode browser-tools $(VENV)/.has-test  ## the extension in code-server (CODE_SERVER=... takes one that is there); pictures in build/vscode-check
	@[ -n "$$CODE_SERVER" ] || $(NODE) --code-server
	@$(NODE) $(abspath $(PY)) editors/vscode/check/check.py

clean:  ## remove what was built, but not the environment
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .coverage .coverage.*

$(VENV)/.has-%: pyproject.toml $(EXTENSION) | $(PY)
	@echo "installing agf-magics[$*] into $(VENV) ..."
	@$(PIP) install --editable '.[$*]'
	@touch $@

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "agf-magics needs Python 3.11 or newer, and $(PYTHON) is $$(command -v $(PYTHON) >/dev/null && $(PYTHON) --version 2>&1 || echo not there)"; \
	  echo "name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo "$(PYTHON) cannot make an environment; on Debian and Ubuntu: apt install python3-venv"; \
	  rm -rf $(VENV); exit 1; } >&2
