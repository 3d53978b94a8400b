#!/bin/sh
# chainJobs.sh FILE SCRIPT…: submits a job that starts after the one whose number FILE holds, and keeps its own there.
[ $# -ge 2 ] || { echo "usage: chainJobs.sh FILE SCRIPT [ARGUMENT]..." >&2; exit 2; }
last=$1
shift
if [ -s "$last" ]; then
    set -- --dependency="afterany:$(cat "$last")" "$@"
fi
job=$(sbatch --parsable "$@") || exit
echo "${job%%;*}" > "$last"
echo "Submitted batch job ${job%%;*}"
