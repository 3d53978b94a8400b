#!/bin/bash
# build.sh PREFIX SOURCE ARCH: puts ./xhpcg here: the site's program below PREFIX, or one built from SOURCE (an archive, or a
# folder with HPCG's sources) as its INSTALL file says: configure ARCH in a folder of its own, then make.
set -eu
prefix=$1 source=$2 arch=$3
if [ -n "$prefix" ]; then
    program=$(find -L "$prefix" -type f -name xhpcg -perm -u+x 2>/dev/null | sort | head -n 1)
    [ -n "$program" ] || { echo "build.sh: hpcg_prefix: no program xhpcg below $prefix" >&2; exit 1; }
elif [ -n "$source" ]; then
    if [ -d "$source" ]; then
        folder=$(cd "$source" && pwd)
    else
        [ -r "$source" ] || { echo "build.sh: hpcg_source: cannot read $source" >&2; exit 1; }
        mkdir -p source
        tar -xf "$source" -C source || { echo "build.sh: hpcg_source: tar cannot unpack $source" >&2; exit 1; }
        folder=$(find "$PWD/source" -maxdepth 2 -type f -name configure -exec dirname {} \; | head -n 1)
    fi
    [ -n "$folder" ] && [ -f "$folder/configure" ] || { echo "build.sh: hpcg_source: no configure in $source" >&2; exit 1; }
    mkdir -p build
    (cd build && "$folder/configure" "$arch" && make) >build.log 2>&1 || {
        tail -n 5 build.log >&2
        echo "build.sh: HPCG could not be built as $arch: see $PWD/build.log; NPC_HPCG_ARCH names another of its setup/Make.* files" >&2
        exit 1
    }
    program=$PWD/build/bin/xhpcg
    [ -x "$program" ] || { echo "build.sh: make left no build/bin/xhpcg: see $PWD/build.log" >&2; exit 1; }
else
    echo "unavailable: no HPCG on $(hostname): name a build with NPC_HPCG_PREFIX, or its sources with NPC_HPCG_SOURCE" >&2
    exit 1
fi
ln -sf "$program" xhpcg
