"""Where a program computes: stacks of all ranks many times a second, merged into one tree.

`recorder` has perf beside every rank and leaves its stacks in a file (`stack_file`), made by `stacks` of what
``perf script`` prints. `merge` makes the run's tree and hotspots of the files of all ranks, with `bounds` for
what a hotspot waits for, and `loop` what its loop needs at least.
"""
