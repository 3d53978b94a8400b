#!/bin/bash
# build.sh HOME [PROGRAM…]: makes what a study needs on a node in this folder: stream, clock, competitor, bandwidth.
set -eu
home=$1
shift
for program in "$@"; do
    command -v cc > /dev/null || { echo "unavailable: no C compiler on $(hostname), by which $program would be made" >&2; exit 1; }
    case $program in
        bandwidth)
            command -v mpicc > /dev/null || { echo "unavailable: no mpicc on $(hostname), by which $program would be made: load an MPI module" >&2; exit 1; }
            mpicc -O2 "$home/observe/study/$program.c" -o "$program"
            ;;
        stream) bash "$home/benchmarks/stream/build.sh" "$home/benchmarks/stream/stream.c" cc "-O3 -march=native -fopenmp" ;;
        *) cc -O2 "$home/observe/study/$program.c" -o "$program" ;;
    esac
done
