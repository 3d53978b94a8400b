#!/bin/bash
# build.sh FOLDER CC CFLAGS: makes ./noise of the source in FOLDER.
set -eu
folder=$1 cc=$2 flags=$3
command -v "${cc%% *}" >/dev/null || { echo "unavailable: no C compiler '$cc' on $(hostname): load a compiler module, or set NPC_NOISE_CC" >&2; exit 1; }
# shellcheck disable=SC2086 # flags are words
exec $cc $flags "$folder"/noise.c -o noise -lm -lpthread
