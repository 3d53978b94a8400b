"""What a running program does to the machine: network counters around it, MPI's own count inside it."""
