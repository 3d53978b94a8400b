#!/bin/sh
# The quick tests and a short main job with the versions of lowest.txt, in an environment of its own:
# .venv/share/npc/lowest. Python 3.10, or what NPC_PYTHON names.
set -eu
unset PYTHONPATH PYTHONHOME
cd "$(dirname "$0")/../.."
lowest=$(pwd -P)/.venv/share/npc/lowest
[ -x "$lowest/bin/python" ] || "${NPC_PYTHON:-python3.10}" -m venv "$lowest"
pip() { "$lowest/bin/python" -m pip --disable-pip-version-check --no-input install -q "$@"; }
pip --require-hashes -r packaging/lock/lowest.txt
pip --no-deps --no-build-isolation -e .
"$lowest/bin/python" -m npc.machine.fetch osu jube
"$lowest/bin/python" -m pytest -n 2 --dist loadfile -m "not slow" --timeout=300
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT

# 6: a number of it is not to be believed, as where others measure on the machine, too
"$lowest/bin/npc" characterise --tag network --tag noise --set samples=1 --output "$empty" || [ $? -eq 6 ]
