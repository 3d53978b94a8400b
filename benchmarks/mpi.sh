# mpi.sh NAME [CACHE]: sourced by a job before it starts MPI programs, so that launcher and library are of one MPI.
#
# NAME is `default` (whatever the PATH has), `openmpi`, `mpich` or `impi`, or anything else: a module to load. An MPI is
# looked for on the PATH (where a module puts it), then below CACHE (`make setup-mpi` fetches mpich and impi into it), then
# among Debian's launchers. In the job's folder mpi/bin and mpi/lib hold links where names differ.
# Exports PATH, LD_LIBRARY_PATH, MPI4PY_MPIABI, SLURM_MPI_TYPE; ends the job with "unavailable: …" where there is none.

npc_mpi_family() {
    case "$("$1" --version 2>&1)" in
        *"Open MPI"* | *PRRTE* | *PRTE*) echo openmpi ;;
        *Intel*) echo impi ;;
        *HYDRA*) echo mpich ;;
        *) echo other ;;
    esac
}

npc_use_prefix() {
    export PATH="$1/bin:$PATH" LD_LIBRARY_PATH="$1/lib:$1/lib/libfabric${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

npc_wrap() { # NAME PROGRAM: a script and no link, because launchers look for their parts where they stand
    mkdir -p mpi/bin && printf '#!/bin/sh\nexec %s "$@"\n' "$2" > "mpi/bin/$1" && chmod +x "mpi/bin/$1"
}

npc_find_module() { # the command is a function of bash, and a /bin/sh between may not have passed it on
    command -v module > /dev/null && return
    npc_path=$PATH
    for npc_profile in "${MODULESHOME:-}/init/bash" /etc/profile; do
        if [ -r "$npc_profile" ]; then
            . "$npc_profile"
            PATH=$npc_path:$PATH # a profile may begin its own
        fi
        command -v module > /dev/null && return
    done
}

npc_use_mpi() { # NAME CACHE
    case $1 in
        default) return 0 ;;
        openmpi | mpich | impi) ;;
        *)
            npc_find_module || { echo "unavailable: mpi=$1: this is none of openmpi, mpich, impi, and there is no module command" >&2; return 1; }
            module load "$1" 2> module.err && ! grep -q ERROR: module.err || { # Environment Modules 3.2 ends with 0
                cat module.err >&2
                npc_found=$({ grep -A 2 rror: module.err || tail -n 1 module.err; } | xargs -d '\n')
                echo "unavailable: mpi=$1: module load $1 failed${npc_found:+: $npc_found}" >&2
                return 1
            }
            cat module.err >&2
            case $(npc_mpi_family mpirun) in
                openmpi) export MPI4PY_MPIABI=openmpi ;;
                mpich | impi) export MPI4PY_MPIABI=mpich ;;
            esac
            return 0
            ;;
    esac
    if command -v mpirun > /dev/null && [ "$(npc_mpi_family mpirun)" = "$1" ]; then
        : # and its libraries are where the module or the system put them
    elif [ -x "$2/$1/bin/mpirun" ]; then
        npc_use_prefix "$2/$1"
        if [ "$1" = impi ]; then
            export I_MPI_ROOT="$2/$1" FI_PROVIDER_PATH="$2/$1/lib"
        fi
    elif command -v "mpirun.$1" > /dev/null; then
        for npc_name in mpirun mpicc mpicxx; do
            command -v "$npc_name.$1" > /dev/null && npc_wrap "$npc_name" "$(command -v "$npc_name.$1")"
        done
        npc_use_prefix "$PWD/mpi"
    else
        echo "unavailable: mpi=$1: not on the PATH of $(hostname): load its module, or \`make setup-mpi\`" >&2
        return 1
    fi
    case $1 in
        openmpi) export MPI4PY_MPIABI=openmpi SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-pmix} ;;
        *)
            export MPI4PY_MPIABI=mpich SLURM_MPI_TYPE=pmi2
            # Debian calls the library of the common ABI by another name: each program finds it by the one it knows
            for npc_pair in "libmpi.so.12 libmpich.so.12" "libmpich.so.12 libmpi.so.12"; do
                npc_found=$(npc_library "${npc_pair#* }")
                [ -n "$(npc_library "${npc_pair% *}")" ] || [ -z "$npc_found" ] \
                    || { mkdir -p mpi/lib && ln -sfn "$npc_found" "mpi/lib/${npc_pair% *}"; }
            done
            export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$PWD/mpi/lib"
            ;;
    esac
}

npc_library() { # the file that the loader takes for NAME
    npc_ifs=$IFS
    IFS=:
    for npc_folder in $LD_LIBRARY_PATH; do
        if [ -e "$npc_folder/$1" ]; then
            IFS=$npc_ifs
            echo "$npc_folder/$1"
            return 0
        fi
    done
    IFS=$npc_ifs
    ldconfig -p 2> /dev/null | sed -n "s/^[[:space:]]*$1 .* => //p" | head -n 1
}

npc_use_mpi "$1" "${2:-}" || exit 1
