#!/bin/bash
# find.sh PROGRAM PREFIX CACHE: leaves the link ./imb to the Intel MPI Benchmarks' PROGRAM below PREFIX, on the PATH (where
# Intel's module puts it) or below CACHE (`make setup-mpi`), if the chosen MPI has the libraries that it was built with.
set -eu
program=$1 prefix=$2 cache=$3
if [ -n "$prefix" ]; then
    found=$(find -L "$prefix" -name "$program" -type f -perm -u+x 2> /dev/null | sort | head -n 1)
else
    found=$(command -v "$program" || ls "$cache/impi/bin/$program" 2> /dev/null) || true
fi
[ -n "$found" ] || { echo "unavailable: no $program${prefix:+ below imb_prefix $prefix} on $(hostname): \`make setup-mpi\` fetches the Intel MPI Benchmarks, imb_prefix names a build" >&2; exit 1; }
needed=$(ldd "$found" 2> /dev/null) || needed=
lost=$(echo "$needed" | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | head -n 1)
case "$needed" in
    *libmpi.so.12*) [ "${MPI4PY_MPIABI:-}" != openmpi ] || lost=libmpi.so.12 ;; # would start singletons
esac
[ -z "$lost" ] || { echo "unavailable: $program needs $lost, which this MPI has not: the published programs are of the MPICH ABI (mpich, impi); imb_prefix names another build, {mpi} in it stands for the MPI" >&2; exit 1; }
ln -sfn "$found" imb
