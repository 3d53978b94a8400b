#!/bin/sh
# Unpacks Debian packages into folders of .venv/share/npc, for the tests alone: Grid Engine (tests/lab/grid_engine.py) and
# Environment Modules (tests/lab/modules.py). They are not installed: the first would bring a mail server, a user and two
# services of the system; the second excludes Lmod, with which the tests run as well.
#
#   tests/lab/fetch_packages.sh
#
# It can be repeated; what is there is left alone. Elsewhere than on Debian and Ubuntu it says so and does nothing.
set -eu

cd "$(dirname "$0")/../.."
command -v apt-get > /dev/null 2>&1 || { echo "setup: no Grid Engine and no Environment Modules for the tests: this is not Debian"; exit 0; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

unpack() { # NAME PACKAGE…
    name=$1 place=.venv/share/npc/$1
    shift
    [ ! -e "$place" ] || return 0
    mkdir "$scratch/$name" "$scratch/$name.debs"
    echo "setup: fetching $name for the tests"
    (cd "$scratch/$name.debs" && apt-get download -qq -o Acquire::Retries=3 "$@" 2> ../log) \
        || { tail -n 1 "$scratch/log"; echo "setup: no $name for the tests: apt-get download failed"; return 0; }
    for package in "$scratch/$name.debs"/*.deb; do
        dpkg-deb -x "$package" "$scratch/$name"
    done
    mkdir -p "${place%/*}"
    cp -r "$scratch/$name" "$place.new"
    mv "$place.new" "$place"
}

unpack grid-engine gridengine-master gridengine-exec gridengine-client gridengine-common libjemalloc2
unpack environment-modules environment-modules
