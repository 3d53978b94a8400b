"""The rank: the MPI process, which does nothing but say where its agent finds the coordinator.

MPI is started, tells rank 0 of all hosts and all ranks of the coordinator, and is finalised before any tool
runs. From then on the rank sleeps in one blocking read until its agent tells it the exit code, so nothing of
MPI spins, polls or holds a network device while a tool measures. The agent is forked before MPI is loaded.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from npc.npb import addresses, agent, interfaces, placement
from npc.npb.interfaces import HostView
from npc.npb.messages import Decoder, encode
from npc.npb.options import LauncherOptions
from npc.npb.processes import adopt_orphans, ancestors, descendants, end_descendants, signal_each
from npc.processes import RANK, RANKS, first_number

USAGE: Final = 2
INTERNAL: Final = 1
#: An agent that ends the run for the coordinator has this much more time to end its tools.
AGENT_LATE_S: Final = 10.0

#: Open MPI's launchers.
_FRONT_ENDS: Final = ("mpirun", "orterun", "mpirun.openmpi", "mpiexec", "mpiexec.openmpi", "prterun")
#: A setting that starts Open MPI faster, where the user has chosen nothing: ``btl/ofi`` alone makes libfabric
#: probe every provider, a second at each start of Open MPI 5.0 (1.19 s of MPI_Init, 0.1 s without). The other
#: four are one-sided or device transports that a small broadcast never uses; how point-to-point messages
#: travel stays Open MPI's own choice.
_FASTER: Final = ("OMPI_MCA_btl", "^ofi,openib,uct,smcuda,usnic")


def run(options: LauncherOptions) -> int:
    """Be one rank of npb from its start to its end; returns its exit code."""
    adopt_orphans()
    rank_pid = os.getpid()
    launcher = placement.watch_launcher(rank_pid)
    ours, theirs = socket.socketpair()
    agent_pid = os.fork()
    if agent_pid == 0:
        ours.close()
        _leave_with(lambda: _agent_process(rank_pid, theirs, launcher, options))
    theirs.close()
    try:
        _start_mpi(ours)
    except _Unusable as problem:
        if not first_number(RANK):
            print(f"npb: {problem}", file=sys.stderr, flush=True)
        ours.close()
        end_descendants(grace_s=1.0)
        return USAGE
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda number, _: _ask_to_end(agent_pid, number))
    in_time = _await_agent(ours, agent_pid, options.total_timeout)
    reply = _receive(ours) if in_time else None
    # The agent has ended its tools before it answers; without an answer it was killed, and we sweep.
    end_descendants(grace_s=0.0 if reply else 1.5)
    if not in_time:
        return agent.LIMIT_REACHED
    if reply and reply.get("end_launcher"):
        _end_launcher(rank_pid)
    return int(reply["exit"]) if reply else INTERNAL


def _ask_to_end(agent_pid: int, signum: int) -> None:
    """Send the agent a signal. What was stopped (SIGSTOP) is woken up: it could not end otherwise."""
    signal_each([agent_pid], signum)
    signal_each(descendants(os.getpid()), signal.SIGCONT)


def _await_agent(from_agent: socket.socket, agent_pid: int, limit_s: float | None) -> bool:
    """Sleep until the agent answers or is gone. False when it does neither although the limit of the whole
    run is long over: it is killed then, and named."""
    if limit_s is None:
        return True
    limit_s += agent.LATE_S + AGENT_LATE_S
    if select.select([from_agent], [], [], limit_s)[0]:
        return True
    print(
        f"npb: {socket.gethostname()}: the agent (process {agent_pid}) did not answer, "
        f"{agent.LATE_S + AGENT_LATE_S:g} s after --total-timeout; it was killed",
        file=sys.stderr,
        flush=True,
    )
    signal_each(descendants(os.getpid()), signal.SIGKILL)
    return False


def _end_launcher(rank_pid: int) -> None:
    """Leave a process that ends mpirun if it does not end by itself; it is gone after three seconds.

    A host was cut off. Everything is measured and written, but mpirun waits for its daemon there until TCP
    gives up, minutes later by default. Its third SIGTERM makes Open MPI's mpirun end at once.
    """
    launchers = [pid for pid, name in ancestors(rank_pid) if name in _FRONT_ENDS]
    if not launchers or os.fork() != 0:
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)

    def poke() -> int:
        time.sleep(2.0)
        for _ in range(3):
            signal_each(launchers, signal.SIGTERM)
            time.sleep(0.3)
        return 0

    _leave_with(poke)


# -- MPI, in the rank --------------------------------------------------------------------------------


class _Unusable(Exception):
    """MPI did not start as npb needs it; the text is for the user."""


def _start_mpi(to_agent: socket.socket) -> None:
    """Tell the own agent where the coordinator is. Raises `_Unusable`."""
    os.environ.setdefault(*_FASTER)
    import mpi4py

    mpi4py.rc.threads = False
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise _Unusable(
            f"no MPI library to load ({error}); load your site's MPI module, install Open MPI or MPICH, "
            "or name the library in MPI4PY_LIBMPI"
        ) from None
    MPI.Init()
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    if size < 2:
        library = MPI.Get_library_version().split("\n")[0].split(",")[0].rstrip("\0 ")
        MPI.Finalize()
        raise _Unusable(_too_few(library))
    start = _receive(to_agent)
    if start is None:
        raise _Unusable(f"the agent on {socket.gethostname()} was killed before MPI had started")
    views = world.gather(start["view"])
    control = None
    if rank == 0:
        _send(to_agent, {"rank": 0, "views": views})
        control = _receive(to_agent)
    control = world.bcast(control)
    MPI.Finalize()
    _send(to_agent, {"rank": rank, "control": control})


def _too_few(library: str) -> str:
    text = (
        "needs at least two processes, one for the server and one for the client: "
        "mpirun -np 2 npb …, or srun -N 2 --ntasks-per-node=1 npb …"
    )
    started = first_number(RANKS)
    if started and started > 1:
        text += (
            f"\nnpb: the launcher started {started} processes, but each is alone in its MPI ({library}). "
            "Either mpirun belongs to another MPI than this library (which mpirun; MPI4PY_LIBMPI names the "
            "library), or srun needs --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH, Intel MPI): srun --mpi=list"
        )
    return text


# -- the agent's process -----------------------------------------------------------------------------


def _agent_process(
    rank_pid: int, to_rank: socket.socket, launcher: Sequence[int], options: LauncherOptions
) -> int:
    agent.start_process(rank_pid)
    _send(to_rank, {"view": interfaces.own_view()})
    from npc.npb import handshake  # loaded here while the rank starts MPI

    if first_number(RANK) == 0:
        import npc.npb.coordinator  # noqa: F401  likewise

    def await_rank() -> dict[str, Any] | None:
        return _await_rank(to_rank, rank_pid, launcher, options.start_timeout)

    message = await_rank()
    if message is None:
        return INTERNAL
    node = agent.Agent(rank_pid, to_rank, launcher)
    if message["rank"] == 0:
        views = [interfaces.from_json(view) for view in message["views"]]
        control = _start_coordinator(node, to_rank, views, options)
        if await_rank() is None:
            return INTERNAL
        control.sendall(b"go\n")
    else:
        where = message["control"]
        if where is None:  # the first rank's agent was killed
            return INTERNAL
        try:
            places = [(address, port) for address, port in where["places"]]
            control = handshake.connect(places, bytes.fromhex(where["secret"]))
            agent.tune(control)
        except OSError as error:
            print(f"npb: {socket.gethostname()}: {error}", file=sys.stderr, flush=True)
            _send(to_rank, {"exit": INTERNAL})
            return INTERNAL
    code = node.serve(control, message["rank"], options.total_timeout)
    if node.coordinator_pid is not None:
        control.close()  # for it, the end of this agent
        _await_end(node.coordinator_pid, limit_s=1.0)
    _send(to_rank, {"exit": code, "end_launcher": node.end_launcher})
    _await_end_of_rank(to_rank, rank_pid)
    return 0


def _await_rank(
    to_rank: socket.socket, rank_pid: int, launcher: Sequence[int], limit_s: float
) -> dict[str, Any] | None:
    """The rank's next message. None when it ended, or when it will not come: the launcher has ended, or MPI
    hangs, which is explained. The rank, which may never return from MPI, is ended then."""
    ready = select.select([to_rank, *launcher], [], [], limit_s)[0]
    if to_rank in ready:
        return _receive(to_rank)
    if not ready:
        print(
            f"npb: {socket.gethostname()}: MPI has not started within {limit_s:g} s (--start-timeout); "
            "does a bare `python -c 'from mpi4py import MPI'` start under the same launcher?",
            file=sys.stderr,
            flush=True,
        )
    signal_each([rank_pid], signal.SIGKILL)
    return None


def _await_end_of_rank(to_rank: socket.socket, rank_pid: int) -> None:
    """The rank ends this process, too. One that does not, because it was stopped, is killed and named."""
    if not select.select([to_rank], [], [], agent.RANK_END_S)[0]:
        print(
            f"npb: {socket.gethostname()}: the rank (process {rank_pid}) did not answer within "
            f"{agent.RANK_END_S:g} s; it was killed",
            file=sys.stderr,
            flush=True,
        )
        signal_each([rank_pid], signal.SIGKILL)


def _start_coordinator(
    node: agent.Agent, to_rank: socket.socket, views: Sequence[HostView], options: LauncherOptions
) -> socket.socket:
    """Fork the coordinator; returns this agent's connection to it."""
    from npc.npb import handshake

    listeners = []
    for address in addresses.reached_at(views[0], views[1:]):
        with contextlib.suppress(OSError):  # an IPv6 address that is not yet sure to be the only one
            listeners.append(_listen(address, len(views)))
    places = [listener.getsockname()[:2] for listener in listeners]
    secret = os.urandom(handshake.SECRET_BYTES)
    ours, theirs = socket.socketpair()
    agent_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        from npc.npb.coordinator import run_coordinator

        to_rank.close()
        ours.close()
        _leave_with(lambda: run_coordinator(options, views, listeners, theirs, secret, agent_pid))
    node.coordinator_pid = pid
    for listener in listeners:
        listener.close()
    theirs.close()
    _send(to_rank, {"places": places, "secret": secret.hex()})
    return ours


def _listen(address: str, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family, backlog=backlog)


def _leave_with(work: Callable[[], int]) -> None:
    """A forked process does its work and ends there, whatever happens; it never returns into its parent's."""
    code = INTERNAL
    try:
        code = work()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _await_end(pid: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(0.002)


def _send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the other side has died; its own end is noticed elsewhere
        connection.sendall(encode(message))


def _receive(connection: socket.socket) -> dict[str, Any] | None:
    """The one message that the other side sends before it is answered; None when it has died."""
    decoder = Decoder()
    with contextlib.suppress(OSError):
        while data := connection.recv(65536):
            for message, _ in decoder.feed(data):
                return message
    return None
