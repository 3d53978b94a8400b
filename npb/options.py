"""What one run of npb is to do, as its command line says it.

A named tuple, as every node loads this before MPI, and dataclasses take longer to load than all else here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: `LauncherOptions.shuffle` where a seed is to be drawn.
DRAW_SEED: Final = -1


class LauncherOptions(NamedTuple):
    """The options of ``npb``; None: not given."""

    servercmd: tuple[str, ...]
    clientcmd: tuple[str, ...]
    #: The server is ended at once when the clients are done.
    killserver: bool
    server_per_step: bool
    #: Of the client's output; empty: by the tool's name.
    parser: str
    #: ``NAME:FROM:TO:OPSTEP``, for ``{NAME}`` in the commands.
    repeat: tuple[str, ...]
    #: None: as many as `precision` needs.
    runs: int | None
    #: How far a median's interval may reach to either side, as a share of it.
    precision: float | None
    samples_max: int | None
    #: For all clients of a step (s) that go beyond the first ones.
    case_time: float | None
    #: The seed of a random order, `DRAW_SEED` for any; None: in order.
    shuffle: int | None
    fail_fast: bool
    #: What stands in the server's host name, and what to put in its place.
    replace_host: tuple[str, str] | None
    interface: str | None
    #: A file of lines ``host address``.
    hostfile_addresses: str | None
    #: Empty: all of the job's.
    server_cpus: frozenset[int]
    client_cpus: frozenset[int]
    #: Until the server listens (s).
    ready_timeout: float
    #: The server counts as ready after this time (s); None: when it listens.
    ready_after: float | None
    #: Of each step (s).
    timeout: float
    #: Of everything (s).
    total_timeout: float | None
    #: Until MPI has started (s).
    start_timeout: float
    #: Which of many nodes measure together: a pattern's name or a file; None: the only two.
    pairs: str | None
    serial: bool
    topology: str | None
    heatmap: str | None
    #: Where raw output and records stay.
    output: str | None
    #: ``table``, ``csv``, ``json`` or ``raw``.
    format: str
    platform: str | None
    benchmark: str | None
