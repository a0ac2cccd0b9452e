# `make demo` trains an example, and `make test` runs the tests. Both commands first set up the
# environment. Later calls are fast, because the environment exists already.

PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
OLDEST_VENV ?= .venv-oldest
OLDEST_PY = $(OLDEST_VENV)/bin/python
DEMO_DIR ?= runs/demo

.PHONY: demo quick test test-slow test-oldest lint docs findings wheel release clean

# An environment with only the library, which `make demo` needs.
$(VENV)/.library: setup.cfg pyproject.toml
	@echo "Installing ut_keras and TensorFlow into $(VENV): 2 to 5 minutes, 2.7 GB on the disk."
	@test -e $(VENV)/bin/python || { $(PYTHON) -m venv $(VENV) && touch $(VENV)/.made; }
	@{ $(PY) -m pip install --disable-pip-version-check --editable . || touch $@.failed; } | \
	  grep --line-buffered -E "^(Collecting|Installing|Successfully)" || true
	@test ! -e $@.failed || { rm $@.failed; exit 1; }
	@touch $@

# An environment with the library and the packages for tests and checks.
$(VENV)/.installed: $(VENV)/.library
	@echo "Installing what the tests need into $(VENV): about a minute."
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	@touch $@

demo: $(VENV)/.library
	$(PY) trainer.py --generate_data --problem=algorithmic_reverse_decimal40_held_out \
	  --model=universal_transformer --hparams_set=adaptive_universal_transformer_demo \
	  --data_dir=$(DEMO_DIR)/data --tmp_dir=$(DEMO_DIR)/tmp --output_dir=$(DEMO_DIR)/train \
	  --train_steps=1500 --local_eval_frequency=1500 --random_seed=1 \
	  --schedule=train_eval_and_decode --eval_steps=0 \
	  --decode_hparams="beam_size=1,extra_length=2"
	@echo "To use the model in Python:"
	@echo "  $(PY) -c 'import ut_keras;" \
	  "print(ut_keras.load(\"$(DEMO_DIR)/train\").translate([\"3 1 4 1 5\"]))'"

# Fast tests that take less than a minute. They check names, flags, hparams and files, and compare
# ACT with values that were computed by hand.
quick: $(VENV)/.installed
	$(PY) -m pytest -m "not slow" tests/hparam_schema tests/hparams tests/bin/flags_test.py \
	  tests/layers/depth/act_test.py tests/files tests/registry_test.py tests/parts_test.py \
	  tests/process/live_line_test.py

# These targets start hundreds of Python processes. If PYTHONDONTWRITEBYTECODE were set, each
# process would compile the modules of ut_keras and the tests again.
test test-slow test-oldest: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/.installed
	$(PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow" --durations=20

# Slow tests: notebooks, runs that are killed repeatedly, and tests in separate processes. Each file
# runs in one process, so an expensive fixture is computed once. `tests/conftest.py` starts the
# longest files first, so that all processes end at about the same time.
test-slow: $(VENV)/.installed
	$(PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder -m slow --durations=20

# The default tests with the oldest supported TensorFlow, in a separate environment. Python 3.11 or
# 3.12 is required. The TensorBoard of TensorFlow 2.19 needs a version of setuptools before 82. The
# protobuf of TensorFlow 2.19 needs a version of tensorflow-metadata before 1.18
# (findings/tensorflow_metadata_protobuf.sh).
test-oldest: $(OLDEST_VENV)/.installed
	$(OLDEST_PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow" --durations=20

$(OLDEST_VENV)/.installed: setup.cfg pyproject.toml
	test -e $(OLDEST_PY) || { $(PYTHON) -m venv $(OLDEST_VENV) && touch $(OLDEST_VENV)/.made; }
	$(OLDEST_PY) -m pip install --quiet --disable-pip-version-check --editable ".[test]" \
	  "tensorflow==2.19.*" "setuptools<82" "tensorflow-metadata<1.18"
	touch $@

lint: $(VENV)/.installed
	$(PY) -m ruff check .
	$(PY) -m mypy

docs: $(VENV)/.docs
	$(PY) scripts/site/pages.py
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

$(VENV)/.docs: $(VENV)/.installed
	$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

# Scripts that check unexpected behavior of other libraries (findings/README.md), each in a new
# environment. CI does not run this target.
findings:
	@changed=0; for script in findings/*.sh; do \
	  echo "== $$script"; \
	  if PYTHON="$(PYTHON)" bash "$$script"; then echo "holds: $$script"; \
	  else echo "CHANGED (or not run): $$script"; changed=1; fi; \
	done; exit $$changed

# Build the wheel and the sdist, and test the installed wheel in a separate environment.
wheel: $(VENV)/.installed
	$(PY) -m pip install --quiet --disable-pip-version-check build twine
	rm -rf build/dist && $(PY) -m build --outdir build/dist
	$(PY) -m twine check --strict build/dist/*
	PYTHON="$(abspath $(PY))" .ci/installed build/dist/*.whl

# Build a release into build/release-VERSION, without publishing it.
release:
	.ci/release

clean:
	test ! -e $(VENV)/.made || rm -rf $(VENV)
	test ! -e $(OLDEST_VENV)/.made || rm -rf $(OLDEST_VENV)
	rm -rf $(DEMO_DIR)/data $(DEMO_DIR)/tmp $(DEMO_DIR)/train build/docs build/site
