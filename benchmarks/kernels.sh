#!/bin/bash
# build.sh SOURCE CC CFLAGS: makes the program of the source's name here; the library is opened when it runs.
set -eu
source=$1 cc=$2 flags=$3 program=$(basename "$1" .c)
command -v "${cc%% *}" >/dev/null || { echo "unavailable: no C compiler '$cc' on $(hostname): load a compiler module, or set NPC_${program^^}_CC" >&2; exit 1; }
# shellcheck disable=SC2086 # flags are words
exec $cc $flags -I"$(dirname "$source")/.." "$source" -o "$program" -ldl -lm
