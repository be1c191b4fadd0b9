# Lab 15, the usual commands. "make help" shows the plain line behind each one.

ifeq ($(OS),Windows_NT)
VENV_PYTHON = .venv/Scripts/python.exe
else
VENV_PYTHON = .venv/bin/python
endif

# The first Python that fits; without one python3, which then says what is wrong with it.
FITS = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
NAMES = python3 python python3.14 python3.13 python3.12 python3.11
ifeq ($(OS),Windows_NT)
PYTHON ?= py
else
PYTHON ?= $(or $(shell for p in $(NAMES); do $$p -c "$(FITS)" >/dev/null 2>&1 && echo $$p && break; done),python3)
endif

# A student's bundle may come without the solutions: then its own file is used.
LAB := $(firstword $(wildcard solutions/lab15_grpo.py) lab15_grpo.py)
RUN := runs/$(if $(filter solutions/%,$(LAB)),solution,mine)-seed0

SETUP_LINE = -m tests.install
TRAIN_LINE = -m $(subst /,.,$(basename $(LAB))) --out $(RUN)
TEST_LINE = -m pytest -q --lab=$(LAB) tests $(wildcard instructor/tests)
TEST_ALL_LINE = $(TEST_LINE) beyond/tests
MINE_LINE = -m pytest -q
WATCH_LINE = -m tests.watch
NOTEBOOKS_LINE = -m notebooks.lab
FIGURES_LINE = -m notebooks.figures
EXPERIMENTS_LINE = -m notebooks.experiments
BOOK_LINE = -m notebooks.book
EXPLORE_LINE = -m notebooks.explore
SMOLLM_LINE = -m beyond.smollm_run
LINT_LINE = -m ruff check .
CLEAN_LINE = -m tests.install --clean

.PHONY: help setup train test test-all test-mine watch lab figures experiments explore book smollm lint clean

help:
	@echo "make setup      makes .venv, installs requirements.txt (also done by train and test)"
	@echo "                python3 $(SETUP_LINE)"
	@echo "make train      trains with $(LAB), draws $(RUN)/curves.png"
	@echo "                .venv/bin/python $(TRAIN_LINE)"
	@echo "make test       runs the quick tests on $(LAB) that need requirements.txt alone"
	@echo "                .venv/bin/python $(TEST_LINE)"
	@echo "make test-all   installs every optional package and runs all quick tests, beyond's too"
	@echo "                .venv/bin/python $(TEST_ALL_LINE)"
	@echo "make test-mine  runs the tests on your lab15_grpo.py; for one task add -k task1"
	@echo "                .venv/bin/python $(MINE_LINE)"
	@echo "make watch      tests your lab15_grpo.py at every save, the task at hand first"
	@echo "                .venv/bin/python $(WATCH_LINE)"
	@echo "make lab        opens the notebooks in JupyterLab, your lab15_grpo.py beside them"
	@echo "                .venv/bin/python $(NOTEBOOKS_LINE)"
	@echo "make figures    draws the chapter's figures again from the kept results"
	@echo "                .venv/bin/python $(FIGURES_LINE)"
	@echo "make experiments  measures what is missing of those results (--force: all, half an hour)"
	@echo "                .venv/bin/python $(EXPERIMENTS_LINE)"
	@echo "make explore    writes explore.html: GRPO in your browser, its model sampling and learning"
	@echo "                .venv/bin/python $(EXPLORE_LINE)"
	@echo "make book       makes a web site of chapter and notebooks that needs no network"
	@echo "                .venv/bin/python $(BOOK_LINE)"
	@echo "make smollm     the five functions teach SmolLM2-135M to add (100 MB once, minutes)"
	@echo "                .venv/bin/python $(SMOLLM_LINE)"
	@echo "make lint       checks the style of the code (for developers)"
	@echo "                .venv/bin/python $(LINT_LINE)"
	@echo "make clean      removes .venv and the caches; runs/ and your work stay"
	@echo "                python3 $(CLEAN_LINE)"
	@echo "Without make, type the second line. On Windows, put .venv\\Scripts\\python for"
	@echo ".venv/bin/python, and py for python3. Another Python: make PYTHON=python3.12 train"

setup:
	@$(PYTHON) $(SETUP_LINE)

train: setup
	$(VENV_PYTHON) $(TRAIN_LINE)

test: setup
	$(VENV_PYTHON) $(TEST_LINE)
	$(if $(wildcard beyond/tests),@echo "What was skipped for want of a package; and beyond/tests:  make test-all")

test-all:
	@$(PYTHON) $(SETUP_LINE) --all
	$(VENV_PYTHON) $(TEST_ALL_LINE)

test-mine: setup
	$(VENV_PYTHON) $(MINE_LINE)

watch: setup
	$(VENV_PYTHON) $(WATCH_LINE)

lab: setup
	$(VENV_PYTHON) $(NOTEBOOKS_LINE)

figures: setup
	$(VENV_PYTHON) $(FIGURES_LINE)

experiments: setup
	$(VENV_PYTHON) $(EXPERIMENTS_LINE)

explore: setup
	$(VENV_PYTHON) $(EXPLORE_LINE)

book:
	@$(PYTHON) $(SETUP_LINE) --dev
	$(VENV_PYTHON) $(BOOK_LINE)

smollm: setup
	$(VENV_PYTHON) -m pip install -q -r beyond/requirements.txt
	$(VENV_PYTHON) $(SMOLLM_LINE)

lint:
	@$(PYTHON) $(SETUP_LINE) --dev
	$(VENV_PYTHON) $(LINT_LINE)

clean:
	@$(PYTHON) $(CLEAN_LINE)
