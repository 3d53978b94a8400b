#!/bin/bash
# build.sh SOURCE MPICC CFLAGS: makes ./himeno with the MPI that the job's starter belongs to.
set -eu
source=$1 cc=$2 flags=$3
[ -r "$source" ] || { echo "build.sh: himeno_source: cannot read $source" >&2; exit 1; }
command -v "${cc%% *}" >/dev/null || { echo "unavailable: no MPI compiler '$cc' on $(hostname): load an MPI module, install libopenmpi-dev, or set NPC_HIMENO_CC" >&2; exit 1; }
# shellcheck disable=SC2086 # flags are words
exec $cc $flags "$source" -o himeno
