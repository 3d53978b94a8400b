"""Probes of the kernel and of the program, on every node, while a program runs: bpftrace around its ranks."""
