# container.sh IMAGE RUNTIME STARTER FOLDER…: sourced by a job before it starts tools that are in a container image.
#
# RUNTIME is apptainer, singularity, podman or pyxis; empty: the first of them that the node has (a module may bring it).
# STARTER is the job's launcher of ranks, empty where it has none; FOLDERs are to be seen inside, as the job's own is.
# Sets what stands before a tool:
#   NPC_IN_CONTAINER           for a tool on this node; exported, so that `npc doctor` tries it out
#   npc_ranks_in_container     for a program behind the starter; Pyxis has options of srun for it
# The environment goes in (OMP_…, UCX_…, PMIx's). Ends the job with "unavailable: …" where nothing can start the image.

npc_use_container() {
    local image=$1 runtime=$2 starter=$3 name folder binds= mounts=
    shift 3
    case $image in *[[:space:]]*) echo "container.sh: container=$image: the name of an image has no white space" >&2; return 1 ;; esac
    if [ -z "$runtime" ]; then
        for name in apptainer singularity; do
            command -v $name > /dev/null && { runtime=$name; break; }
        done
    fi
    if [ -z "$runtime" ] && srun --help 2> /dev/null | grep -q -e --container-image; then
        runtime=pyxis
    fi
    [ -n "$runtime" ] || ! command -v podman > /dev/null || runtime=podman
    [ -n "$runtime" ] || { echo "unavailable: container=$image: $(hostname) has neither apptainer nor singularity, podman or Slurm's Pyxis: load a module, or set container_runtime" >&2; return 1; }

    for folder in "$PWD" "$@"; do
        binds="$binds --bind $folder" mounts="$mounts -v $folder:$folder"
    done
    case $runtime in
        apptainer | singularity)
            [ ! -e /dev/nvidiactl ] || binds="$binds --nv"
            [ ! -e /dev/kfd ] || binds="$binds --rocm"
            NPC_IN_CONTAINER="$runtime --silent exec$binds $image"
            ;;
        podman)
            NPC_IN_CONTAINER="podman run --rm -i --env-host --network=host --ipc=host --pid=host -w $PWD$mounts $image"
            [ "$(id -u)" = 0 ] || NPC_IN_CONTAINER=${NPC_IN_CONTAINER/ --rm/ --rm --userns=keep-id}
            ;;
        pyxis)
            # srun starts ranks. A single tool would be no child of who starts it: Enroot, on which Pyxis stands, starts that
            NPC_IN_CONTAINER="enroot start${mounts// -v / -m } $image"
            runtime=enroot
            ;;
        *) echo "container.sh: container_runtime=$runtime: expected apptainer, singularity, podman or pyxis" >&2; return 1 ;;
    esac
    command -v "$runtime" > /dev/null || { echo "unavailable: container=$image: no $runtime on $(hostname): load its module" >&2; return 1; }
    npc_ranks_in_container=$NPC_IN_CONTAINER
    case $runtime:$starter in
        enroot:srun*)
            mounts=${mounts// -v /,}
            npc_ranks_in_container="--container-image=$image --container-mounts=${mounts#,} --container-workdir=$PWD"
            ;;
    esac
    export NPC_IN_CONTAINER
}

npc_use_container "$@" || exit 1
