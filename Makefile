# `make run` shows the main job; `make test` runs every test. Both do all set-up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup tools run test test-portable test-engines test-installs test-shells chaos fuzz check docs bench clean

help:
	@echo "make run     set up, then run a command and show where its environment came from"
	@echo "make test    set up, then run all tests (installs the tools they need when it can)"
	@echo "make test-portable  the same where Linux's own abilities are missing, as on a Mac"
	@echo "make test-engines   the tests with PostgreSQL, Ray, sshd and Slurm, which are installed when they can be"
	@echo "make test-installs  the wheel with pip, pipx and uv, in every supported Python that is here; the site"
	@echo "make test-shells    so many random layers, wrappers, shells and startup files (EXAMPLES=2000): half an hour"
	@echo "make chaos   every system call fails in turn, crowds, 10,000 sessions, a soak: about an hour"
	@echo "make fuzz    tests that make up their examples, with TIMES=25 as many and new ones each time: half an hour"
	@echo "make setup   prepare .venv with the outfitter command"
	@echo "make check   format, lint, types, layers"
	@echo "make docs    the documentation and the Python API as a site with search: build/site/index.html"
	@echo "make bench   compare with the reference, side by side (ARGS=--quick, --json, ...)"

$(VENV)/.ready: pyproject.toml scripts/setup
	@scripts/setup $(PYTHON) $(VENV)

# With the bytecode, as a wheel is installed: no start has to compile, or to be able to write what it compiled.
setup: $(VENV)/.ready
	@$(BIN)/python -m compileall -q src/outfitter

# The peers and programs that tests talk to; says plainly what it cannot install.
tools: setup
	@scripts/tools

run: setup
	@scripts/demo

# Side by side, two per core, as half of the time is spent waiting for a peer; with more than 16 the longest file
# alone takes as long as all others. A file's tests stay together, as they share servers, and the longest
# files come first (tests/conftest.py).
test: setup tools
	@workers=$$((2 * $$(getconf _NPROCESSORS_ONLN))); [ $$workers -le 16 ] || workers=16; \
	scripts/test -n $$workers --dist loadfile --no-loadscope-reorder

# The suite on Linux without what only Linux has (scripts/portable), and on any other system as it is. Tests of Linux's
# own abilities are skipped, each with its reason (tests/support/portable.py), and so are tests with programs that are
# built for Linux and do not start without its calls (tests/support/tools.py).
test-portable: setup
	@$$([ "$$(uname)" = Linux ] && echo $(BIN)/python scripts/portable) \
		$(BIN)/python -m pytest -n 2 --dist loadfile tests $(ARGS)

# What needs an engine that few people have on their machine.
test-engines: setup tools
	@scripts/engines
	@OUTFITTER_ENGINES=1 scripts/test tests/engines $(ARGS)

# A minute or more: a virtual environment for each.
test-installs: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pipx>=1.7' 'uv>=0.8' || \
		echo "pipx and uv could not be installed: their tests will skip" >&2
	@OUTFITTER_INSTALLS=1 scripts/test tests/installs $(ARGS)

# The suite tries 30 of them: whether a command has the environment that the contract says, or a flag.
test-shells: EXAMPLES ?= 2000
test-shells: setup
	@OUTFITTER_EXAMPLES=$(EXAMPLES) scripts/test --timeout 0 --hypothesis-show-statistics \
		tests/end_to_end/test_shells_property.py $(ARGS)

# The same tests as in the suite, with every call, large crowds and long runs; it says how far it is.
chaos: setup
	@OUTFITTER_CHAOS=1 scripts/test -v -s tests/end_to_end/test_chaos.py tests/end_to_end/test_faults.py \
		tests/server/test_http.py::test_memory_stays_flat_while_a_slow_reader_gets_all_of_it \
		tests/pool/test_leaks.py $(ARGS)

# Tests that make up their examples, with TIMES as many of them and new ones each time: 25 take half an hour.
fuzz: TIMES ?= 25
fuzz: setup tools
	@OUTFITTER_FUZZ=$(TIMES) scripts/test -n 2 --timeout 0 $(ARGS)

check: setup
	@scripts/check

# Nobody else needs what makes the site: it is installed with the first one.
$(VENV)/.docs: $(VENV)/.ready
	@echo "docs: installing Sphinx" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

# A warning is an error: so is a link that leads nowhere.
docs: setup $(VENV)/.docs
	@$(BIN)/sphinx-build -q -W --keep-going -c scripts/site -d build/doctrees docs build/site
	@echo "docs: build/site/index.html" >&2

bench: setup tools
	@$(BIN)/python -m bench $(ARGS)

clean:
	rm -rf $(VENV) .tools .cache dist build
