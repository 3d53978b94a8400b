#!/bin/bash
# launch.sh HOME NODES RANKS THREADS MAPPING BINDING FOLDER [NAME=VALUE…] -- WORDS COMMAND…: one launch of a study.
#
# The first WORDS of COMMAND go before it and print what the network gives. COMMAND runs in FOLDER, on NODES of this job with RANKS on each of THREADS threads, placed as benchmarks/placement.sh
# says. Slurm's job may be of another shape: its variables are changed, so that mpirun and srun see one of this shape.
# In COMMAND @WORK@ is the job's folder and @LAUNCH@ where the launch's files begin (npc records sample).
home=$1 nodes=$2 ranks=$3 threads=$4 mapping=$5 binding=$6 folder=$7
shift 7
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    export "$1"
    shift
done
words=$2 # of the command that goes before
shift 2
if [ -n "${SLURM_JOB_ID:-}" ]; then
    export SLURM_NTASKS=$((nodes * ranks)) SLURM_NPROCS=$((nodes * ranks))
    export SLURM_NTASKS_PER_NODE=$ranks SLURM_TASKS_PER_NODE="$ranks(x$nodes)" SLURM_CPUS_PER_TASK=$threads
    [ $((ranks * threads)) -le "${SLURM_CPUS_ON_NODE:-1}" ] || export SLURM_OVERCOMMIT=1
fi
# shellcheck source=/dev/null
. "$home/benchmarks/placement.sh" "$ranks" "$threads" "$mapping" "$binding" "" ""
work=$PWD
launch=${NPC_LAUNCH:-$work/launch}
command=("${@//@WORK@/$work}")
command=("${command[@]//@LAUNCH@/$launch}")
cd "$folder" || exit
if [ "$words" -gt 0 ]; then
    "${command[@]:0:words}" > "$launch.rates.network.json" || exit
fi
exec "${command[@]:words}"
