# Everything a contributor runs. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := PYTHONPATH=tests:tools:benchmarks $(BIN)/python
ROUNDS ?= 20
COUNT ?= 10000
DEFINITIONS ?= 2000
SEED ?= 0
KILLS ?= 300
OPERATORS ?= 5000
EVERY ?= 1
NETWORKS ?= 500
SANITIZED := tests/targets/host/test_kernel_memory.py tests/compiler/test_network_memory.py
NATIVE := tests/targets/host tests/end_to_end/test_host.py tests/compiler tests/cli/test_run_network.py
SOURCES := $(shell find src/tilewright -type f -not -path '*/__pycache__/*')
DEMO := compile vgg16 --layers --machine sw26010 --batch 128 -o out/vgg16 --check-each-algorithm

.DEFAULT_GOAL := help
.PHONY: check-networks exact-networks fuzz-definitions fuzz-gradients fuzz-networks fuzz-stages help kill-training setup demo test test-avx512 check fuzz fuzz-host fuzz-cache bench bench-tuning bench-host bench-model host-functions reproduce reproduce-quick replay check-prices reference onnx-node-tests models fuzz-onnx fuzz-cns1 cns1-schedules fuzz-dla fuzz-partition faults fuzz-core-programs fuzz-files fuzz-torrent clean test-cns1-nodes cross-check fuzz-cambricon train-fixed fixed-networks

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/installed-dev $(VENV)/precompiled ## create .venv with everything for development

demo: $(VENV)/precompiled ## tune, generate and check every layer of VGG-16 for the SW26010
	$(BIN)/tilewright $(DEMO)

test: $(VENV)/installed-dev ## run the test suite on two processes
	$(BIN)/pytest -n 2 --dist worksteal

test-avx512: $(VENV)/installed-dev ## the tests of code for this computer, AVX-512 emulated (slow)
	$(BIN)/pytest -n 2 --emulate-avx512 $(NATIVE)

check: $(VENV)/installed-dev ## lint, format, types, layers, size budgets
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/architecture

fuzz: $(VENV)/installed-dev ## ROUNDS=20 rounds of eight times more examples, other ones in each
	set -e; for round in $$(seq $(ROUNDS)); do echo "== round $$round of $(ROUNDS)"; \
	  $(BIN)/pytest -q -n 2 -m 'hypothesis or one_in' --hypothesis-profile=fuzz; done

fuzz-host: $(VENV)/installed-dev ## ROUNDS=20 rounds of 152 kernels and 16 networks under sanitizers
	set -e; for round in $$(seq $(ROUNDS)); do echo "== round $$round of $(ROUNDS)"; \
	  $(BIN)/pytest -q -n 2 --hypothesis-profile=fuzz $(SANITIZED); done

fuzz-cache: $(VENV)/installed-dev ## KILLS=300 compilations killed, the cache damaged; goes on where it was
	$(RUN) -m fuzz.cache $(KILLS)

fuzz-gradients: $(VENV)/installed-dev ## OPERATORS=5000 gradients of random operators against differences, again of gradients
	$(RUN) -m fuzz.gradients $(OPERATORS) $(SEED)

kill-training: $(VENV)/installed-dev ## KILLS=300 trainings killed: nothing told is lost, the end is the same
	$(RUN) tools/kill_training.py $(KILLS) $(SEED)

fuzz-networks: $(VENV)/installed-dev ## NETWORKS=500 random networks: interpreter, simulator, emulated code, this computer, divided
	$(RUN) -m fuzz.networks $(NETWORKS) $(SEED)

fuzz-definitions: $(VENV)/installed-dev ## COUNT=10000 random definitions, DEFINITIONS=2000 of them planned and as many networks of up to four computed here and on SW26010, as many mutated texts; goes on where it stopped
	$(RUN) -m fuzz.definitions --count $(COUNT)
	$(RUN) -m fuzz.definitions --count $(DEFINITIONS) --plans
	$(RUN) -m fuzz.definitions --count $(COUNT) --texts
	$(RUN) -m fuzz.stages --count $(DEFINITIONS) --seed $(SEED) --definitions --draw-schedules --on "this computer" --on interpreter

fuzz-stages: $(VENV)/installed-dev ## DEFINITIONS=2000 random stages: reference, this computer and sanitizers, SW26010, Cambricon
	$(RUN) -m fuzz.stages --count $(DEFINITIONS) --seed $(SEED)

exact-networks: $(VENV)/installed-dev ## known networks on integers: interpreter, emulated code, this computer
	$(RUN) tools/exact_networks.py

bench: $(VENV)/installed-bench ## run every script in benchmarks/, briefly where it has --quick
	set -e; for script in benchmarks/*.py; do echo "== $$script"; \
	  quick=$$(grep -q -e '"--quick"' $$script && echo --quick || true); \
	  $(RUN) $$script $$quick; done

bench-tuning: $(VENV)/installed-bench ## seconds to rank every schedule of VGG-16
	$(BIN)/python benchmarks/tuning_speed.py

bench-host: $(VENV)/installed-bench ## kernels and networks for this computer against libraries
	$(BIN)/python benchmarks/host_rivals.py products resnet50
	$(BIN)/python benchmarks/host_networks.py

check-networks: $(VENV)/installed-bench ## the networks of the zoo and of the page of results, optimised code for this computer against the interpreter
	$(RUN) benchmarks/host_networks.py --check lenet5 alexnet most

host-functions: $(VENV)/installed-bench ## largest error and speed of exp, log and others on this computer, over all 2^32 arguments; EVERY=1
	$(BIN)/python benchmarks/host_functions.py --every $(EVERY)

bench-model: $(VENV)/installed-bench ## the model's estimates and picks against this computer (hours)
	$(BIN)/python benchmarks/model_on_silicon.py estimates
	$(BIN)/python benchmarks/model_on_silicon.py spaces

reproduce: $(VENV)/installed ## every table and figure of the papers into out/reproduce (half an hour)
	$(BIN)/tilewright reproduce --all

reproduce-quick: $(VENV)/installed-dev ## the same on a small subset of the cases (minutes)
	$(BIN)/tilewright reproduce --all --quick -o out/reproduce-quick

replay: $(VENV)/installed ## BASE=REV compare picks, prices, cycles, code and JSON with an older revision
	$(BIN)/python tools/replay.py $(BASE)

check-prices: $(VENV)/installed-dev ## prices of the primitives against their emitted code (a quarter of an hour)
	$(RUN) benchmarks/elementwise_routines.py
	$(RUN) benchmarks/gemm_primitive.py

reference: $(VENV)/installed-dev ## write the generated pages of docs/reference
	$(RUN) -m reference.onnx
	$(RUN) -m reference.functions
	$(RUN) -m reference.errors
	$(RUN) -m reference.results

fuzz-onnx: $(VENV)/installed-dev ## COUNT=10000 mutated ONNX models, as many node tests, their code under sanitizers; goes on where it stopped; SEED=0
	$(RUN) -m fuzz.onnx --count $(COUNT) --seed $(SEED) --sanitized
	$(RUN) -m fuzz.onnx --count $(COUNT) --seed $(SEED) --sanitized --nodes

fuzz-files: $(VENV)/installed-dev ## COUNT=10000 mutated machine descriptions, as many assembly programs; SEED=0
	$(RUN) -m fuzz.files machines --count $(COUNT) --seed $(SEED)
	$(RUN) -m fuzz.files programs --count $(COUNT) --seed $(SEED)

fuzz-torrent: $(VENV)/installed-dev ## COUNT=10000 mutated programs of a Torrent: listings and kernels; SEED=0
	$(RUN) -m fuzz.files torrent --count $(COUNT) --seed $(SEED)

fuzz-cns1: $(VENV)/installed-dev ## COUNT=10000 random kernels of a Torrent against their reference; SEED=0
	$(RUN) -m fuzz.cns1 --count $(COUNT) --seed $(SEED)

test-cns1-nodes: $(VENV)/installed-dev ## both kernels on 128 nodes with values against the fixed-point network (1 minute)
	$(RUN) tools/cns1_nodes.py

cns1-schedules: $(VENV)/installed-dev ## solve the loops of the CNS-1's kernels again
	$(RUN) tools/schedule_cns1.py

fuzz-dla: $(VENV)/installed-dev ## COUNT=10000 mutated programs of DLA-AL, as many instructions through text and back; SEED=0
	$(RUN) -m fuzz.dla --count $(COUNT) --seed $(SEED)

fuzz-cambricon: $(VENV)/installed-dev ## random shapes and schedules, forward and backward, and training steps on a Cambricon, 2000 of them; goes on where it stopped
	$(RUN) -m fuzz.cambricon --seconds 100000

fixed-networks: $(VENV)/installed-dev ## AlexNet and VGG16, and AlexNet's training step of 4 images, once with values on a Cambricon, bit for bit as interpreted
	$(BIN)/python tools/fixed_networks.py
	$(BIN)/python tools/fixed_networks.py alexnet --batch 4 --step

train-fixed: $(VENV)/installed-dev ## digits trained in 16 bits, checked against the device, and in floats beside it
	$(BIN)/python tools/train_fixed.py

fuzz-partition: $(VENV)/installed-dev ## COUNT=10000 random layers divided over cores, executed; SEED=0
	$(RUN) -m fuzz.partition --count $(COUNT) --seed $(SEED)

fuzz-core-programs: $(VENV)/installed-dev ## the same by programs of cores, then whole networks; COUNT=100
	$(RUN) -m fuzz.partition --programs --count $(COUNT) --seed $(SEED)

faults: $(VENV)/installed-dev ## COUNT=10000 seeded faults, each before the tests that reach it; goes on where it stopped; SEED=0
	$(BIN)/python tools/faults.py --count $(COUNT) --seed $(SEED)

cross-check: $(VENV)/installed-dev ## COUNT=10000 random kernels and those of networks by their emitted text; SEED=0
	$(RUN) tools/cross_check.py --count $(COUNT) --seed $(SEED) --networks lenet5 alexnet

onnx-node-tests: $(VENV)/installed-dev ## every node test of the onnx package; goes on where it was
	$(RUN) tools/onnx_node_tests.py

models: $(VENV)/installed-dev $(VENV)/installed-models ## model files of packages and of torch: reference, this computer, SW26010, onnxruntime; goes on where it was
	$(RUN) tools/models.py --install --csv docs/results/models.csv

$(VENV)/precompiled: $(SOURCES) tools/precompile.py | $(VENV)/installed
	$(BIN)/python tools/precompile.py
	touch $@

clean: ## remove the environment, caches and outputs
	rm -rf $(VENV) out build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@ $(VENV)/installed
