#!/bin/bash
# build.sh FOLDER COMPILER FLAGS: makes ./gpu of gpu.cu in FOLDER.
set -eu
folder=$1 compiler=$2 flags=$3
[ -e /dev/dxg ] || compgen -G '/dev/nvidia[0-9]*' >/dev/null || { echo "unavailable: no NVIDIA GPU on $(hostname)" >&2; exit 1; }
export PATH=$PATH:/usr/local/cuda/bin # where NVIDIA's packages put it
command -v "${compiler%% *}" >/dev/null || { echo "unavailable: no CUDA compiler '$compiler' on $(hostname): load a CUDA module, or set NPC_GPU_COMPILER" >&2; exit 1; }
# shellcheck disable=SC2086 # flags are words
exec $compiler $flags "$folder"/gpu.cu -o gpu -lcublas -ldl
