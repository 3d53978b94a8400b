#!/bin/bash
# run.sh COMMAND…: one run of HPC Challenge in a folder of its own, because HPCC appends to the hpccoutf.txt that it finds.
# Prints that file; what HPCC says itself goes to stderr.
set -u
folder=$(mktemp -d "$PWD/hpcc.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
cp hpccinf.txt "$folder" && cd "$folder" || exit 1
"$@" >&2
code=$?
[ ! -e hpccoutf.txt ] || cat hpccoutf.txt
exit $code
