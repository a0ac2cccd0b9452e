# All set-up and all work in two commands: `make demo` and `make test`. Re-running is fast.

PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
DEMO_DIR ?= /tmp/ut_keras_demo
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo test lint clean

$(VENV)/.installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@

demo: $(VENV)/.installed
	$(PY) trainer.py $(DEMO_FLAGS)

test: $(VENV)/.installed
	$(PY) -m pytest

lint: $(VENV)/.installed
	$(PY) -m ruff check .

clean:
	rm -rf $(VENV) $(DEMO_DIR)
