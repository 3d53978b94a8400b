# placement.sh RANKS THREADS MAPPING BINDING PLACES PROC_BIND: sourced by a job before it starts an MPI program of
# RANKS processes a node with THREADS threads each. Every thread gets a core of its own where there are enough.
#
# With one thread, and nothing asked for, the launcher decides. Else Open MPI 4 (OMPI_…), Open MPI 5 (PRTE_…) and the Hydra of
# MPICH and Intel MPI are told by their variables, each by its own, so that it does not matter which of them starts the
# program. Not srun: its variables would bind the daemons of the others, too. It has its options on the command line.
#
#   MAPPING    ppr:N:socket, ppr:N:numa: N ranks on each. Empty: ranks side by side
#   BINDING    core, hwthread: one for each thread; none. Empty: cores, else hardware threads, else none
#   PLACES, PROC_BIND   OMP_PLACES, OMP_PROC_BIND; by default cores (or threads), spread
# Exports OMP_NUM_THREADS as well. npc_noted are the options of npc records sample by which records say what was asked for.

npc_cpus() { # CPU,CORE,SOCKET,NODE of each that this job has here
    lscpu -p=CPU,CORE,SOCKET,NODE | awk -F, -v allowed="$(taskset -cp $$ | sed 's/.*: *//')" '
        BEGIN {
            for (n = split(allowed, parts, ","); n > 0; n--) {
                last = split(parts[n], ends, "-")
                for (cpu = ends[1] + 0; cpu <= ends[last] + 0; cpu++) may[cpu] = 1
            }
        }
        /^[0-9]/ && ($1 + 0) in may'
}

npc_number() { # of different values in some columns of npc_cpus
    npc_cpus | cut -d, -f"$1" | sort -u | wc -l
}

npc_place_ranks() { # RANKS THREADS MAPPING BINDING PLACES PROC_BIND
    local ranks=$1 threads=$2 mapping=$3 binding=$4 places=$5 proc_bind=$6 per object number name
    export OMP_NUM_THREADS="$threads"
    npc_noted=
    for name in mapping binding places proc_bind; do
        [ -z "${!name}" ] || npc_noted="$npc_noted --param $name=${!name}"
    done
    [ -z "$places" ] || export OMP_PLACES="$places"
    [ -z "$proc_bind" ] || export OMP_PROC_BIND="$proc_bind"
    [ "$threads" -gt 1 ] || [ -n "$mapping$binding" ] || return 0

    if [ -z "$binding" ]; then
        binding=none
        [ $((ranks * threads)) -gt "$(npc_number 1)" ] || binding=hwthread
        [ $((ranks * threads)) -gt "$(npc_number 2,3)" ] || binding=core
    fi
    case $binding in
        core | hwthread) ;;
        none)
            [ -z "$mapping" ] || { echo "placement.sh: mapping=$mapping needs $threads cores or hardware threads for each of the $ranks ranks of $(hostname), and binding" >&2; return 1; }
            # no OMP_PLACES: the threads of all ranks would begin at the same core
            export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
            export HYDRA_BINDING=none I_MPI_PIN=off
            return 0
            ;;
        *) echo "placement.sh: binding=$binding: expected core, hwthread or none" >&2; return 1 ;;
    esac

    local four="ppr:$ranks:node:PE=$threads" five="slot:PE=$threads" # 5 takes no PE behind ppr from a variable
    if [ -n "$mapping" ]; then
        IFS=: read -r name per object <<< "$mapping"
        case $name:$object in
            ppr:socket) number=$(npc_number 3) five="package:SPAN:PE=$threads" ;;
            ppr:numa) number=$(npc_number 4) five="numa:SPAN:PE=$threads" ;;
            *) per=x ;;
        esac
        [[ $per =~ ^[1-9][0-9]*$ ]] || { echo "placement.sh: mapping=$mapping: expected ppr:N:socket or ppr:N:numa" >&2; return 1; }
        [ $((per * number)) -eq "$ranks" ] || { echo "placement.sh: mapping=$mapping makes $((per * number)) ranks on $(hostname), whose number of ${object}s is $number; asked for: $ranks a node" >&2; return 1; }
        # Open MPI 4.1 ends by a segmentation fault where a rank of ppr:1:socket gets all cores of its socket
        four="$object:SPAN,PE=$threads"
        export OMPI_MCA_rmaps_base_ranking_policy=slot PRTE_MCA_rmaps_default_ranking_policy=slot HYDRA_MAPPING="$object"
    fi
    if [ "$binding" = hwthread ]; then
        export OMPI_MCA_hwloc_base_use_hwthreads_as_cpus=1
        five="$five:HWTCPUS"
    fi
    export OMPI_MCA_rmaps_base_mapping_policy="$four" OMPI_MCA_hwloc_base_binding_policy="$binding"
    export PRTE_MCA_rmaps_default_mapping_policy="$five" PRTE_MCA_hwloc_default_binding_policy="$binding"
    export HYDRA_BINDING="$binding:$threads"
    if [ "$threads" -gt 1 ]; then
        [ "$binding" = core ] && name=cores || name=threads
        export OMP_PLACES="${places:-$name}" OMP_PROC_BIND="${proc_bind:-spread}"
    fi
}

npc_place_ranks "$1" "$2" "$3" "$4" "$5" "$6" || exit 1
