# Sourced by scripts: one of them at a time, also where the file system has no locks.
#
#   take_lock FILE SECONDS     waits at most SECONDS for the lock of FILE (descriptor 9); fails when another has it still
#   drop_lock                  at the end; a lock of the kernel ends by itself
#
# Without flock(2) (Lustre mounted without it) or flock(1) a symbolic link takes its place, which only one can
# make and which names its holder: FILE.held -> HOST PID. What a dead process of this host left is removed.

held=""

take_lock() {
    [ -e "$1" ] || : > "$1"
    exec 9< "$1"
    if command -v flock > /dev/null 2>&1; then
        flock -E 75 -w "$2" 9 2> /dev/null && return 0
        [ $? != 75 ] || return 1
    fi
    waited=0
    until ln -s "$(uname -n) $$" "$1.held" 2> /dev/null; do
        holder=$(readlink "$1.held") || [ -w "$(dirname "$1")" ] || return 0 # who cannot write here says so later
        if [ "${holder% *}" = "$(uname -n)" ] && ! [ -d "/proc/${holder##* }" ]; then
            rm -f "$1.held"
        elif [ $waited -ge "$2" ]; then
            echo "$1.held: held by $holder; if that has ended: remove it" >&2
            return 1
        else
            sleep 1
            waited=$((waited + 1))
        fi
    done
    held=$1.held
}

drop_lock() {
    [ -z "$held" ] || rm -f "$held"
}
