# `make demo` trains an example and `make test` runs the tests; both set up the environment first.
# Repeated calls are fast.

PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
OLDEST_VENV ?= .venv-oldest
OLDEST_PY = $(OLDEST_VENV)/bin/python
DEMO_DIR ?= runs/demo

.PHONY: demo quick test test-slow test-oldest lint docs findings wheel release clean

# The library alone, which `make demo` needs.
$(VENV)/.library: setup.cfg pyproject.toml
	@echo "Installing ut_keras and TensorFlow into $(VENV): 2 to 5 minutes, 2.7 GB on the disk."
	@test -e $(VENV)/bin/python || { $(PYTHON) -m venv $(VENV) && touch $(VENV)/.made; }
	@{ $(PY) -m pip install --disable-pip-version-check --editable . || touch $@.failed; } | \
	  grep --line-buffered -E "^(Collecting|Installing|Successfully)" || true
	@test ! -e $@.failed || { rm $@.failed; exit 1; }
	@touch $@

# The library and what tests and checks need.
$(VENV)/.installed: $(VENV)/.library
	@echo "Installing what the tests need into $(VENV): about a minute."
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	@touch $@

demo: $(VENV)/.library
	$(PY) trainer.py --generate_data --problem=algorithmic_reverse_decimal40_held_out \
	  --model=universal_transformer --hparams_set=adaptive_universal_transformer_quick \
	  --data_dir=$(DEMO_DIR)/data --tmp_dir=$(DEMO_DIR)/tmp --output_dir=$(DEMO_DIR)/train \
	  --train_steps=2000 --local_eval_frequency=2000 --random_seed=1 \
	  --schedule=train_eval_and_decode --eval_steps=0 \
	  --decode_hparams="beam_size=1,extra_length=2"
	@echo "To use the model in Python:"
	@echo "  $(PY) -c 'import ut_keras;" \
	  "print(ut_keras.load(\"$(DEMO_DIR)/train\").translate([\"3 1 4 1 5\"]))'"

# Fast tests, under a minute: names, flags, hparams, files, and ACT against hand-computed values.
quick: $(VENV)/.installed
	$(PY) -m pytest -m "not slow" tests/hparam_schema tests/hparams tests/bin/flags_test.py \
	  tests/layers/depth/act_test.py tests/files tests/registry_test.py tests/parts_test.py \
	  tests/process/live_line_test.py

test: $(VENV)/.installed
	$(PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow" --durations=20

# Slow tests: notebooks, runs that are killed repeatedly, and tests in separate processes. Each file
# runs in one process, so an expensive fixture is computed once. `tests/conftest.py` starts the
# longest files first, so that all processes end at about the same time.
test-slow: $(VENV)/.installed
	$(PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder -m slow --durations=20

# The default tests with the oldest supported TensorFlow, in an environment of its own. Python 3.11
# or 3.12 is required. The TensorBoard of TensorFlow 2.19 needs a setuptools before 82, and its protobuf
# a tensorflow-metadata before 1.18 (findings/tensorflow_metadata_protobuf.sh).
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

# Surprises about other libraries (findings/README.md), each in a new environment. Not part of CI.
findings:
	@changed=0; for script in findings/*.sh; do \
	  echo "== $$script"; \
	  if PYTHON="$(PYTHON)" bash "$$script"; then echo "holds: $$script"; \
	  else echo "CHANGED (or not run): $$script"; changed=1; fi; \
	done; exit $$changed

# Wheel and sdist, and what a user has of them in an environment of its own.
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
