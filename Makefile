# Two commands for people: `make run` opens the page, `make test` checks everything.
# PYTHON=... picks the interpreter, ARGS=... goes to the page, BROWSER_TESTS=0 leaves the browser tests out on purpose.

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: run test traces results figure gallery space screenshots clean

run: $(VENV)/.app
	$(VENV)/bin/python app.py $(ARGS)

test: $(VENV)/.dev
	BROWSER_TESTS=$(BROWSER_TESTS) scripts/chromium.sh
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	BROWSER_TESTS=$(BROWSER_TESTS) $(VENV)/bin/python -m pytest --numprocesses 2 --dist loadfile

# Records the gallery of assets/traces anew with the embedded model.
traces: $(VENV)/.app
	$(VENV)/bin/python -m fovea_core record-examples

# Measures what is committed with the weights in assets, and writes the figures of docs, README and model card: half an hour of a
# machine with nothing else to do. Rows of table 2 whose weights are not shipped go (docs/RESULTS.md has their commands).
results: $(VENV)/.dev
	scripts/chromium.sh
	$(VENV)/bin/python -m app.lab --measure
	$(VENV)/bin/python -m fovea_core bench page --prices assets/bench/builtin.json --json assets/bench/page.json
	$(VENV)/bin/python -m fovea_core bench card

# Draws docs/figure.png, the strip of a recorded example; no model takes part.
figure: $(VENV)/.app
	$(VENV)/bin/python -m fovea_core export assets/traces/blue-hose.jsonl --strip docs/figure.png

# Writes the recorded examples as one page that opens by double click, or as a static Space: make gallery OUT=folder
gallery: $(VENV)/.app
	$(VENV)/bin/python -m fovea_core gallery $(or $(OUT),out/gallery)

# Writes the folder of a Hugging Face Space and prints the command that uploads it: make space TARGET=zerogpu|cpu|static OUT=folder
space: $(VENV)/.app
	$(VENV)/bin/python -m fovea_core space --target $(or $(TARGET),cpu) --out $(or $(OUT),out/space-$(or $(TARGET),cpu))

# Photographs the page with the recorded examples for the README; no model takes part.
screenshots: $(VENV)/.dev
	scripts/chromium.sh
	$(VENV)/bin/python -m scripts.screenshots

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "FOVEA explorer needs Python 3.11 or newer, and '$(PYTHON)' is not; name one with: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The stamps let a second call start at once; they are renewed when a list of packages changes.
$(VENV)/.app: requirements.txt constraints.txt | $(VENV)/bin/python
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.app
	$(PIP) -r requirements-dev.txt
	@touch $@
