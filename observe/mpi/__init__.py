"""Inside a program's MPI: a profiling library between program and MPI (PMPI), and what its files tell."""
