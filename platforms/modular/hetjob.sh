# Sourced by the job: makes mpirun use the nodes of all components of a heterogeneous job. Its own support for Slurm
# sees the first one only, so it gets a list of hosts, and remote-shell.sh to start its daemons there.
if [ "${SLURM_HET_SIZE:-1}" -gt 1 ]; then
    here=$(pwd -P)
    : > hosts.openmpi
    : > hosts.hydra
    for (( group = 0; group < SLURM_HET_SIZE; group++ )); do
        nodes=SLURM_JOB_NODELIST_HET_GROUP_$group
        tasks=SLURM_NTASKS_HET_GROUP_$group
        number=SLURM_JOB_NUM_NODES_HET_GROUP_$group
        for host in $(scontrol show hostnames "${!nodes}"); do
            echo "$host slots=$(( ${!tasks} / ${!number} ))" >> hosts.openmpi
            echo "$host:$(( ${!tasks} / ${!number} ))" >> hosts.hydra
        done
    done
    # Open MPI to version 4, from version 5, and MPICH and Intel MPI
    export OMPI_MCA_ras=^slurm OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$here/remote-shell.sh"
    export OMPI_MCA_orte_default_hostfile="$here/hosts.openmpi"
    export PRTE_MCA_ras=^slurm PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_agent="$here/remote-shell.sh"
    export PRTE_MCA_prte_default_hostfile="$here/hosts.openmpi"
    export HYDRA_RMK=user HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC="$here/remote-shell.sh"
    export HYDRA_HOST_FILE="$here/hosts.hydra" I_MPI_HYDRA_BOOTSTRAP=ssh
    export I_MPI_HYDRA_BOOTSTRAP_EXEC="$here/remote-shell.sh" I_MPI_HYDRA_HOST_FILE="$here/hosts.hydra"
fi
