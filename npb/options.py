"""What one run of npb is to do, as its command line says it.

A named tuple, as every node loads this before MPI, and dataclasses take longer to load than all else here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: `LauncherOptions.shuffle` where a seed is to be drawn.
DRAW_SEED: Final = -1


class LauncherOptions(NamedTuple):
    """The options of ``npb``; None: not given."""

    #: The server's command line, word by word.
    servercmd: tuple[str, ...]
    #: The client's command line, word by word.
    clientcmd: tuple[str, ...]
    #: The server is ended at once when the clients are done.
    killserver: bool
    #: Each step gets a fresh server.
    server_per_step: bool
    #: Of the client's output; empty: by the tool's name.
    parser: str
    #: ``NAME:FROM:TO:OPSTEP``, for ``{NAME}`` in the commands.
    repeat: tuple[str, ...]
    #: None: as many as `precision` needs.
    runs: int | None
    #: How far a median's interval may reach to either side, as a share of it; None: the default.
    precision: float | None
    #: The most clients that one step starts to reach `precision`; None: the default.
    samples_max: int | None
    #: Limit (s) for all clients of a step where more than the first ones run; None: the default.
    case_time: float | None
    #: The seed of a random order, `DRAW_SEED` for any; None: in order.
    shuffle: int | None
    #: Stop at the first step that fails.
    fail_fast: bool
    #: What stands in the server's host name, and what to put in its place; None: nothing is replaced.
    replace_host: tuple[str, str] | None
    #: The network interface whose address the client is given; None: npb chooses.
    interface: str | None
    #: A file of lines ``host address``; None: not given.
    hostfile_addresses: str | None
    #: Empty: all of the job's.
    server_cpus: frozenset[int]
    #: Numbers of the CPUs that the client may use; empty: all of the job's.
    client_cpus: frozenset[int]
    #: Until the server listens (s).
    ready_timeout: float
    #: The server counts as ready after this time (s); None: when it listens.
    ready_after: float | None
    #: Of each step (s).
    timeout: float
    #: Of everything (s); None: no limit.
    total_timeout: float | None
    #: Until MPI has started (s).
    start_timeout: float
    #: Which of many nodes measure together: a pattern's name or a file; None: the only two.
    pairs: str | None
    #: One pair is measured at a time; otherwise all pairs of a round at once.
    serial: bool
    #: A file that says which switches and racks the nodes belong to; None: not given.
    topology: str | None
    #: The file that gets the picture of all pairs; None: ``heatmap.png`` in `output`.
    heatmap: str | None
    #: Folder where raw output and records stay; None: not given.
    output: str | None
    #: ``table``, ``csv``, ``json`` or ``raw``.
    format: str
    #: The platform that the records name; None: the name of the first host.
    platform: str | None
    #: The benchmark that the records name; None: the name of the tool.
    benchmark: str | None
