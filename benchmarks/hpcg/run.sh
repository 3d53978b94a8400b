#!/bin/bash
# run.sh COMMAND…: one run of HPCG in a folder of its own, because it writes its result to HPCG-Benchmark_*.txt there.
# Prints that file; what HPCG says itself goes to stderr.
set -u
folder=$(mktemp -d "$PWD/hpcg.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
"$@" >&2
code=$?
cat HPCG-Benchmark_*.txt 2>/dev/null
exit $code
