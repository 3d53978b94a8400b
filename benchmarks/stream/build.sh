#!/bin/bash
# build.sh SOURCE CC CFLAGS [ARRAY_SIZE [STORES]]: makes ./stream, and ./stream_nontemporal where STORES names it. The official stream.c has its array size compiled in: four times this
# node's last-level caches, by STREAM's rule, unless ARRAY_SIZE says otherwise. Ours finds its size when it runs.
set -eu
source=$1 cc=$2 flags=$3 size=${4:-} stores=${5:-}
[ -r "$source" ] || { echo "build.sh: stream_source: cannot read $source" >&2; exit 1; }
command -v "${cc%% *}" >/dev/null || { echo "unavailable: no C compiler '$cc' on $(hostname): load a compiler module, or set NPC_STREAM_CC" >&2; exit 1; }
case $stores in *non-temporal*)
    # shellcheck disable=SC2086
    if ! grep -q NONTEMPORAL "$source"; then
        reason="unavailable: $source has no variant with non-temporal stores, NPC's own has"
    elif $cc $flags -DNONTEMPORAL "$source" -o stream_nontemporal -lm 2>nontemporal.log; then
        reason=
    else
        reason="unavailable: $(grep -m 1 error nontemporal.log || echo "'$cc' cannot compile non-temporal stores")"
    fi
    if [ -n "$reason" ]; then
        printf '#!/bin/sh\ncat >&2 <<"END"\n%s\nEND\nexit 1\n' "$reason" >stream_nontemporal
        chmod +x stream_nontemporal
    fi ;;
esac
if grep -q STREAM_ARRAY_SIZE "$source"; then
    if [ -z "$size" ]; then
        # each last-level cache once: at the first CPU of its list of sharers
        bytes=0
        for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
            last=$(ls -d "$cpu"/cache/index* 2>/dev/null | sort | tail -n 1)
            [ -n "$last" ] || continue
            first=$(sed 's/[^0-9].*//' "$last/shared_cpu_list")
            [ "$cpu" = "/sys/devices/system/cpu/cpu$first" ] || continue
            bytes=$((bytes + $(sed 's/K$/*1024/; s/M$/*1048576/' "$last/size")))
        done
        size=$((4 * bytes / 8))
        [ "$size" -ge 10000000 ] || size=10000000
    fi
    # arrays beyond 2 GiB do not fit the small code model
    case $(uname -m) in x86_64) model=-mcmodel=medium ;; *) model= ;; esac
    # shellcheck disable=SC2086 # flags are words
    exec $cc $flags $model -DSTREAM_ARRAY_SIZE="$size" "$source" -o stream -lm
fi
# shellcheck disable=SC2086
exec $cc $flags "$source" -o stream -lm
