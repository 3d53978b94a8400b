#!/bin/sh
# Unpacks Debian's Grid Engine into .venv/share/npc/grid-engine, for the tests (tests/lab/grid_engine.py) alone. It is
# not installed: that would bring a mail server, a user and two services of the system.
#
#   tests/lab/fetch_grid_engine.sh
#
# It can be repeated; what is there is left alone. Elsewhere than on Debian and Ubuntu it says so and does nothing.
set -eu

cd "$(dirname "$0")/../.."
place=.venv/share/npc/grid-engine
packages="gridengine-master gridengine-exec gridengine-client gridengine-common libjemalloc2"
if [ -x "$place/usr/lib/gridengine/sge_qmaster" ]; then
    exit 0
fi
command -v apt-get > /dev/null 2>&1 || { echo "setup: no Grid Engine for the tests: this is not Debian"; exit 0; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/grid-engine"
echo "setup: fetching Grid Engine for the tests"
# shellcheck disable=SC2086  # a list of names
(cd "$scratch" && apt-get download -qq -o Acquire::Retries=3 $packages 2> log) \
    || { tail -n 1 "$scratch/log"; echo "setup: no Grid Engine for the tests: apt-get download failed"; exit 0; }
for package in "$scratch"/*.deb; do
    dpkg-deb -x "$package" "$scratch/grid-engine"
done
mkdir -p "${place%/*}"
rm -rf "$place"
cp -r "$scratch/grid-engine" "$place"
