#!/bin/bash
# build.sh SOURCE CACHE MPI_CACHE: builds the OSU Micro-Benchmarks from SOURCE (a .tar.gz, .tar.xz … as its makers publish it, or an
# unpacked folder) with the mpicc on the PATH, as by hand: ./configure CC=mpicc CXX=mpicxx && make install. Leaves the link
# ./osu-build to the installation, which stays in CACHE for the next job with the same source, compiler and MPI.
set -eu
source=$1 cache=$2 mpi_cache=$3 log=$PWD/osu-build.log
fail() { echo "osu_source $source: $*; the whole log: $log" >&2; exit 1; }
[ -r "$source" ] || { echo "osu_source: cannot read $source on $(hostname)" >&2; exit 1; }
mpicc=$(command -v mpicc) || mpicc=
# Intel MPI's runtime has no compiler wrapper; what MPICH's has built runs with it (MPICH ABI)
if [ "${MPI4PY_MPIABI:-}" = mpich ] && { [ -z "$mpicc" ] || "$mpicc" -show 2>&1 | grep -q openmpi; }; then
    mpicc=$mpi_cache/mpich/bin/mpicc
fi
command -v "${mpicc:-mpicc}" > /dev/null || { echo "unavailable: no mpicc on $(hostname) to build osu_source with: load an MPI module, or name a ready build (osu_prefix)" >&2; exit 1; }
mpicxx=${mpicc%cc}cxx
content=$( { if [ -d "$source" ]; then (cd "$source" && find . -type f -print0 | sort -z | xargs -0 sha256sum); else cat "$source"; fi; "$mpicc" -show; "$mpicc" --version; } 2>&1 | sha256sum)
prefix=$cache/${content%% *}
mkdir -p "$cache"
. "$(dirname "$0")/../../npc/lock.sh"
trap drop_lock EXIT
take_lock "$prefix.lock" 3600 || fail "another job has been building it for an hour" # jobs that start together build once
if [ ! -e "$prefix/.installed" ]; then
    build=$(mktemp -d)
    trap 'rm -rf "$build"; drop_lock' EXIT
    rm -rf "$prefix"
    if [ -d "$source" ]; then cp -r "$source/." "$build"; else tar -xf "$source" -C "$build" > "$log" 2>&1 || fail "is no archive"; fi
    top=$(find "$build" -maxdepth 2 -name configure -type f -perm -u+x -printf '%d %h\n' | sort -n | head -n 1)
    [ -n "$top" ] || fail "has no configure at its top"
    cd "${top#* }"
    { ./configure CC="$mpicc" CXX="$mpicxx" --prefix="$prefix" && make -j "$(nproc)" && make install; } < /dev/null >> "$log" 2>&1 9>&- \
        || fail "does not build: $(grep -iE '(^|[^a-z])error' "$log" | head -n 1)"
    : > "$prefix/.installed"
    cd "$OLDPWD"
fi
ln -sfn "$prefix" osu-build
