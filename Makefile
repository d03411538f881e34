# Every task of the project; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-for-demo
# Test processes, with one broker for all; whoever is done first takes over half of what another has left.
# End-to-end tests wait as long as they compute, so four keep two cores busy. Six of them, with their servers,
# make a slow machine overrun what a test may take.
# Servers in Java live for seconds there: they compile without their second, slow compiler (a broker from its start to its
# end takes 5 s of processor time instead of 8), and collect garbage in one thread (0.3 s less).
PYTEST := JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" $(BIN)/python -m pytest -n 4 --dist worksteal --durations 40 --durations-min 2
# Hundreds of processes import the same modules: compiled once, whatever the environment says. Test processes
# take 6 s each to collect the tests then, and 16 otherwise.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := tidegate app agents tables schemas pipeline sim stack supply tests bench examples docsite

.PHONY: help doctor setup demo demo-connect demo-chaos demo-spark test unit offline soak fuzz mutants lint format types pins sbom supply proto kernel bench docs stack-up stack-down ci clean

help: ## list the tasks
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

doctor: ## say what this machine has for the tests and demos, what it lacks, and what that means
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m supply.doctor

setup: $(STAMP) ## create .venv with the pinned dependencies

# Nothing is installed whose SHA-256 is not in requirements/, and nothing is built with a backend from elsewhere.
# Wheels are taken but for PySpark, which is published as source alone, and Faust, which has none for Linux on aarch64.
FROM_SOURCE := --no-binary pyspark $(if $(filter aarch64,$(shell uname -m)),--no-binary faust-streaming)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
HASHED := --require-hashes --only-binary :all: $(FROM_SOURCE) --no-build-isolation --use-pep517

$(STAMP): pyproject.toml requirements/build.txt requirements/all.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) $(HASHED) -r requirements/build.txt
	$(INSTALL) $(HASHED) -r requirements/all.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $(DEMO_STAMP) $(STAMP)

# The demo needs neither PySpark, which is most of what there is to install, nor what checks the code. Where
# Maven is not installed the broker's jars are fetched by the Ivy that PySpark brings.
FETCHES := $(shell command -v mvn)$(TIDEGATE_IVY_JAR)$(wildcard /usr/share/java/ivy.jar)
DEMO_SETUP := $(if $(FETCHES),$(DEMO_STAMP),$(STAMP))

$(DEMO_STAMP): pyproject.toml requirements/build.txt requirements/demo.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) $(HASHED) -r requirements/build.txt
	$(INSTALL) $(HASHED) -r requirements/demo.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $(DEMO_STAMP)

demo: $(DEMO_SETUP) ## real flights through a real broker, audited (DEMO="--seconds 60 --seed 1 ...")
	$(BIN)/python -m examples.demo $(DEMO)

demo-connect: setup ## flights into PostgreSQL by Kafka Connect, compared and audited
	$(BIN)/python -m examples.demo.connect $(DEMO)

demo-chaos: $(DEMO_SETUP) ## splits, merges, killed workers, a broker that restarts, audited
	$(BIN)/python -m examples.demo.chaos $(DEMO)

demo-spark: setup ## flights through Spark into Delta tables, compared, audited and plotted (CLUSTER=1: on a standalone cluster)
	$(BIN)/python -m examples.demo.spark $(if $(CLUSTER),--cluster) $(DEMO)

# Of the tests that take long each run takes others: the seed is in its first lines (SAMPLE="1796000000").
SAMPLED = $(if $(filter all,$(SAMPLE)),,--sample $(or $(SAMPLE),$(shell date +%s)))

test: setup ## the test suite, real-broker tests included; some of the long tests, others each time (SAMPLE=all for all of them)
	TIDEGATE_HYPOTHESIS=some $(PYTEST) -m 'not soak' $(SAMPLED)

# Each claim that is left out or given fewer examples here has its whole run in `make offline`. There is nothing to wait for, and
# each process collects the tests once more: two of them.
unit: setup ## the quick tests of single modules, without a broker; property tests on a fifth of the examples
	TIDEGATE_HYPOTHESIS=few $(PYTEST) -n 2 --quick -m 'not broker and not soak and not long' tests/unit tests/test_strategies.py tests/test_driven_sim.py

offline: setup ## all tests that need no broker, but for what `make soak` runs
	$(PYTEST) -m 'not broker and not soak'

soak: setup ## some of the longest tests, more examples, then 20 minutes of simulated workers under faults (SOAK="--minutes 20", SAMPLE=all)
	$(MAKE) test
	$(PYTEST) -n 1 -m 'soak and broker' $(SAMPLED) # each of them has load of its own for the whole machine
	$(PYTEST) -m 'soak and not broker' $(SAMPLED)
	TIDEGATE_HYPOTHESIS=many $(PYTEST) --timeout 3600 -m 'hypothesis and not soak' $(SAMPLED)
	TIDEGATE_KERNEL=check $(PYTEST) -m 'not soak and not broker' $(SAMPLED) # each step by the kernel and by Python, compared
	TIDEGATE_KERNEL=check $(BIN)/python -m tests.simulation --profile long $(or $(SOAK),--minutes 20)

fuzz: setup ## damaged inputs for every reader of foreign bytes, led by coverage where Atheris is installed (FUZZ="--minutes 10 --seed 1 --target steps")
	$(BIN)/python -m tests.fuzz --engine auto $(FUZZ)

mutants: setup ## small slips in the core, and those that no test notices (MUTANTS="--seed 1 --sample 60")
	$(BIN)/python -m tests.mutants $(MUTANTS)

lint: setup ## ruff: style and common mistakes
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: setup ## ruff: rewrite to the house style
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: setup ## mypy, strict
	$(BIN)/mypy

pins: setup ## write constraints.txt, requirements/, stack/pinned.toml, the bench's (PINS="--upgrade-package NAME")
	$(BIN)/python -m supply pins -- $(PINS)
	$(BIN)/python -m bench.peers.pins

sbom: setup ## write the bill of materials, sbom.cdx.json
	$(BIN)/python -m supply sbom

supply: setup ## is installed what is pinned, does sbom.cdx.json list it, and does pip refuse another hash
	$(BIN)/python -m supply check

proto: setup ## generate code from the .proto files
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. $$(find tidegate -name '*.proto')

# The hash stands beside the artefact: the loader runs no other file, and CI compares it where this compiler is.
KERNEL := tidegate/kernel/kernel.wasm
KERNEL_BUILT := kernel/target/wasm32-unknown-unknown/release/tidegate_kernel.wasm

kernel: ## build the kernel from kernel/ with the pinned compiler (only this task and its tests need cargo)
	cd kernel && cargo fmt --check && cargo clippy --locked --all-targets -- --deny warnings
	cd kernel && cargo test --locked --quiet
	cd kernel && cargo build --locked --release --target wasm32-unknown-unknown
	cp $(KERNEL_BUILT) $(KERNEL)
	chmod 644 $(KERNEL)
	sha256sum $(KERNEL) > $(KERNEL).sha256

bench: setup ## measure: stages, end to end, marker lag, memory (BENCH="--quick ...")
	$(BIN)/python -m bench $(BENCH)

docs: setup ## build the documentation site into build/site; a broken link, anchor or missing page fails
	$(BIN)/python -m docsite

stack-up: setup ## start a Kafka broker for development
	$(BIN)/python -m stack up kafka

stack-down: setup ## stop it
	$(BIN)/python -m stack down kafka

ci: lint types supply docs test ## what CI runs

clean: ## remove the environment and caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
