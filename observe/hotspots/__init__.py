"""Where a program computes: the stacks of all ranks, taken many times a second and merged into one tree.

`recorder` runs perf beside every rank; `stacks` counts what ``perf script`` prints, and `stack_file` keeps it
in a file for each rank. `merge` makes the run's tree and hotspots from all files; `bounds` says what a
hotspot waits for, and `loop` what its loop needs at least.
"""
