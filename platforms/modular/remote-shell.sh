#!/bin/bash
# remote-shell.sh [OPTION]... HOST COMMAND...: as mpirun calls ssh, on any node of a heterogeneous job of Slurm
while [[ $1 = -* ]]; do shift; done
host=$1
shift
unset SLURM_CPUS_PER_TASK  # or older versions give the step only these
for (( group = 0; group < SLURM_HET_SIZE; group++ )); do
    nodes=SLURM_JOB_NODELIST_HET_GROUP_$group
    if scontrol show hostnames "${!nodes}" | grep -qxF "${host%%.*}"; then
        exec srun --quiet --het-group="$group" --nodes=1 --ntasks=1 --nodelist="${host%%.*}" --mpi=none \
            bash -c "$*"
    fi
done
echo "remote-shell.sh: $host is no node of this job" >&2
exit 255
