#!/bin/bash
# build.sh SOURCE CC CFLAGS: makes ./chase.
set -eu
source=$1 cc=$2 flags=$3
command -v "${cc%% *}" >/dev/null || { echo "unavailable: no C compiler '$cc' on $(hostname): load a compiler module, or set NPC_CHASE_CC" >&2; exit 1; }
# shellcheck disable=SC2086 # flags are words
exec $cc $flags "$source" -o chase
