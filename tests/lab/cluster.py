"""A real Slurm cluster on this machine: a head node and n1…nN, with real munged, slurmctld and slurmd.

In a test::

    with Cluster(nodes=4) as cluster:
        cluster.run("head", ["sbatch", "job.sh"])
        cluster.kill_node("n2")

and from the command line (`make cluster-up` and `make cluster-down` do the first and the last)::

    python -m tests.lab.cluster up
    python -m tests.lab.cluster run head sinfo
    python -m tests.lab.cluster shape n1 100
    python -m tests.lab.cluster down

Every node is a machine of its own as far as processes, network, shared memory and host name go; file
systems are shared, as home directories are on a cluster. It needs root and Debian's munge, slurm-wlm,
slurmdbd, mariadb-server-core and iproute2, and adds nothing to the machine's own network, /etc, /run or /var.

A process of its own, the holder, starts everything and ends it again: when it is told to, when the pipe to
the test closes because the test has died, or with the kernel's help when it is killed itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab.hosts import Keepers, Network
from tests.paths import ROOT

HEAD = "head"
#: The ordinary user whom the accounting knows.
USER = "nobody"
#: Before a command that this user gives.
AS_USER = ("setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups", "--")
_PREFIX = "10.77.0"
_PROGRAMS = (
    "munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "sbatch", "ip", "unshare", "nsenter", "setpriv",
)  # fmt: skip
_INSTALL = "apt-get install munge slurm-wlm slurmdbd mariadb-server-core iproute2"
_START_LIMIT_S = 20.0


def missing() -> str:
    """What keeps a cluster from being started here; empty if nothing does."""
    if os.geteuid() != 0:
        return "a Slurm cluster of its own needs root"
    absent = [program for program in _PROGRAMS if shutil.which(program) is None]
    return f"no {', '.join(absent)}: {_INSTALL}" if absent else ""


class Cluster:
    """The cluster, as a context manager; or, with a folder alone, one that is up already.

    nodes: how many. partitions: name → the rest of its line in slurm.conf. By default ``all``
    (the default partition), ``cluster`` with the first half of the nodes, and ``booster`` with the others.
    extra_conf: keys of slurm.conf, in place of our values. node_conf: more words for the nodes' line.
    files: further files beside slurm.conf, by name. Nodes have the features ``cluster`` or ``booster``.
    limits: of a user's jobs, as sacctmgr has them (``MaxSubmitJobs=2``): with slurmdbd, which holds everybody
    but root to them; ``nobody`` is the user that it knows.
    """

    def __init__(
        self,
        nodes: int = 4,
        partitions: Mapping[str, str] | None = None,
        extra_conf: Mapping[str, str] | None = None,
        node_conf: str = "",
        files: Mapping[str, str] | None = None,
        limits: str = "",
    ) -> None:
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self._settings = {
            "nodes": nodes,
            "partitions": dict(partitions or _partitions(nodes)),
            "extra_conf": dict(extra_conf or {}),
            "node_conf": node_conf,
            "files": dict(files or {}),
            "limits": limits,
        }
        self._holder: subprocess.Popen[str] | None = None
        self._commands: list[subprocess.Popen[Any]] = []

    @classmethod
    def attached(cls, folder: Path) -> Cluster:
        """The cluster that is up in `folder`. Raises FileNotFoundError if there is none."""
        state = json.loads((folder / "cluster.json").read_text())
        cluster = cls(state["nodes"])
        cluster._attach(folder, state)
        return cluster

    def _attach(self, folder: Path, state: Mapping[str, Any]) -> None:
        self.folder = folder
        self.network = Network(state["addresses"], state["pids"], self.nodes)

    def __enter__(self) -> Cluster:
        problem = missing()
        if problem:
            raise RuntimeError(problem)
        # not below a test's own folder: the path of a socket has at most 107 characters
        folder = Path(tempfile.mkdtemp(prefix="npc-cluster-"))
        self._holder = _hold(folder, self._settings, subprocess.PIPE)
        self._attach(folder, json.loads((folder / "cluster.json").read_text()))
        return self

    def __exit__(self, *_: object) -> None:
        for command in self._commands:
            if command.poll() is None:
                command.kill()
                command.wait()
        assert self._holder is not None and self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()

    def command(self, host: str, arguments: Sequence[str | Path]) -> list[str]:
        """The command line that runs a command on a host (``head``, n1, …)."""
        die_with_parent = ["setpriv", "--pdeathsig", "KILL", "--"]
        return [*self.network.enter(host), *die_with_parent, *map(str, arguments)]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """For commands on its hosts: no variables of a job around the test, temporary files of its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PMI"))}
        return {**kept, "TMPDIR": str(self.folder / "tmp"), **(extra or {})}

    def run(
        self,
        host: str,
        arguments: Sequence[str | Path],
        timeout: float = 60.0,
        check: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host to its end; `env` is added to this process's environment.

        Raises subprocess.TimeoutExpired after `timeout` seconds, CalledProcessError if `check` and it fails.
        """
        entered = self.command(host, arguments)
        return subprocess.run(
            [word if not word.startswith("--wdns=") or cwd is None else f"--wdns={cwd}" for word in entered],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=check,
            env=self.environment(env),
        )

    def popen(self, host: str, arguments: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """Start a command on a host; it ends with the cluster at the latest.

        On the head node the process is the command itself, so that it can be sent signals; on the others
        it is ``nsenter``, whose end kills the command. Options are those of subprocess.Popen; ``env`` is
        added to this process's environment.
        """
        options["env"] = self.environment(options.get("env"))
        options.setdefault("stdin", subprocess.DEVNULL)
        started = subprocess.Popen(self.command(host, arguments), **options)
        self._commands.append(started)
        return started

    def bytes(self, host: str) -> tuple[int, int]:
        """What a host has received and sent so far on eth0, in bytes."""
        return self.network.bytes(host)

    def shape(self, host: str, rate_mbit: float) -> None:
        """Limit what a host sends, and what it is sent."""
        self.network.shape(host, rate_mbit)

    def shape_sending(self, host: str, rate_mbit: float) -> None:
        """Limit what a node sends alone."""
        self.network.shape_sending(host, rate_mbit)

    def kill_node(self, host: str) -> None:
        """A node loses its power: every process of it dies at once, and its cable is dead."""
        self.network.cut(host)
        # -1: all but the init process, which holds the node's network
        subprocess.run([*self.network.enter(host), "sh", "-c", "kill -KILL -1"], check=False, timeout=20)

    def start_slurmd(self, host: str) -> None:
        """Start a node's daemon (again), with its cable plugged in."""
        self.network.mend(host)
        subprocess.run([*self.network.enter(host), "slurmd"], check=True, timeout=20)

    def stop_controller(self) -> None:
        """End slurmctld, which saves its state."""
        pid = int((self.folder / "slurmctld.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        until(lambda: not _runs(pid), "slurmctld ends")

    def start_controller(self) -> None:
        """Start slurmctld again, with the state it had saved."""
        self.popen(HEAD, ["slurmctld", "-D"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self.run(HEAD, ["scontrol", "ping"]).stdout.count("UP") > 0, "slurmctld answers")

    def await_idle(self, hosts: Sequence[str] = (), limit_s: float = _START_LIMIT_S) -> None:
        """Wait until nodes (all by default) are idle."""
        wanted = set(hosts or self.nodes)
        ask = ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]
        until(lambda: wanted <= set(self.run(HEAD, ask).stdout.split()), f"{wanted} are idle", limit_s)


def until(true: Callable[[], bool], what: str, limit_s: float = _START_LIMIT_S) -> None:
    """Ask again and again until it is so; raises TimeoutError after the limit."""
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {limit_s:g} s: {what}")
        time.sleep(0.1)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _partitions(nodes: int) -> dict[str, str]:
    half = (nodes + 1) // 2
    whole = {"all": "Nodes=ALL Default=YES", "cluster": f"Nodes=n[1-{half}]"}
    return {**whole, "booster": f"Nodes=n[{half + 1}-{nodes}]"} if nodes > 1 else whole


# -- the holder ----------------------------------------------------------------------------------------


def _hold(folder: Path, settings: Mapping[str, Any], stdin: int) -> subprocess.Popen[str]:
    """Start the holder and wait until the cluster is up. Raises RuntimeError with its words if it is not."""
    stays = [] if stdin == subprocess.PIPE else ["--stay"]
    with (folder / "holder.err").open("wb") as errors:
        holder = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.cluster", "hold", *stays, str(folder), json.dumps(settings)],
            cwd=ROOT,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for the test
        )
    assert holder.stdout is not None
    answer = holder.stdout.readline().strip()
    if answer != "up":
        holder.wait()
        raise RuntimeError(f"the Slurm cluster did not start: {answer}")
    return holder


def hold(folder: Path, settings: Mapping[str, Any], stay: bool) -> None:
    """Start a cluster in `folder`, say ``up``, keep it until stdin ends or SIGTERM comes, remove it all."""

    def stop(*_: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    try:
        (folder / "holder").write_text(_identity(os.getpid()))
        with contextlib.ExitStack() as stack:
            _start(folder, settings, stack)
            print("up", flush=True)
            if stay:
                os.close(1)
                signal.pause()
            else:
                sys.stdin.read()
    except (RuntimeError, TimeoutError, OSError, subprocess.SubprocessError) as error:
        words = [str(error)]
        for log in ("holder.err", "log/munged.err", "log/slurmctld.log", "log/slurmd-n1.log"):
            path = folder / log
            words += path.read_text(errors="replace").splitlines()[-3:] if path.exists() else []
        print(" | ".join(words), flush=True)
        raise SystemExit(1) from None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # what a dying daemon still writes may come between listing the folder and removing it
        for _ in range(20):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.05)


def _start(folder: Path, settings: Mapping[str, Any], stack: contextlib.ExitStack) -> None:
    nodes = [f"n{number}" for number in range(1, settings["nodes"] + 1)]
    addresses = {HEAD: f"{_PREFIX}.1", **{host: f"{_PREFIX}.{10 + int(host[1:])}" for host in nodes}}
    for name in (
        "slurm",
        "log",
        "state",
        "tmp",
        *(f"{kind}-{n}" for kind in ("spool", "tmp") for n in nodes),
    ):
        (folder / name).mkdir()
    _write_configuration(folder, settings, nodes, addresses)
    keepers = Keepers(folder, addresses, nodes)
    stack.callback(keepers.end)
    stack.callback(_end_all_in_network_of, keepers.pids[HEAD])
    network = keepers.network
    for host in (HEAD, *nodes):
        network.inside(host, f"mount --bind {folder}/slurm /etc/slurm")
    (folder / "cluster.json").write_text(
        json.dumps({"nodes": len(nodes), "addresses": addresses, "pids": keepers.pids})
    )

    def daemon(*arguments: str) -> None:
        """On the head node, ending with the holder."""
        with (folder / "log" / f"{arguments[0]}.err").open("wb") as log:
            subprocess.Popen(
                [*network.enter(HEAD), "setpriv", "--pdeathsig", "KILL", "--", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    munge = folder / "munge"
    munge.mkdir()
    for place in (folder, munge):
        place.chmod(0o711)  # for ordinary users
    (munge / "key").touch(mode=0o600)
    (munge / "key").write_bytes(os.urandom(128))
    files = [f"--{kind}-file={munge}/{kind}" for kind in ("key", "pid", "seed")]
    # by force, because it dislikes folders that only their owner can enter
    daemon("munged", "--foreground", "--force", *files, f"--socket={munge}/socket")
    until((munge / "socket").is_socket, "munged listens")
    if settings["limits"]:
        _start_accounting(folder, network, daemon, settings["limits"])
        _open_python(folder, network)
    daemon("slurmctld", "-D")
    for host in nodes:
        network.inside(host, "slurmd")
    Cluster.attached(folder).await_idle()


def _start_accounting(folder: Path, network: Network, daemon: Callable[..., None], limits: str) -> None:
    """slurmdbd with a database of its own, and an ordinary user with limits."""
    data = f"--datadir={folder}/database"
    make = ["mariadb-install-db", "--no-defaults", data, "--user=root", "--skip-test-db"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    socket = folder / "database/socket"
    options = ["--no-defaults", "--user=root", "--skip-grant-tables", "--bind-address=127.0.0.1"]
    daemon("mariadbd", *options, data, f"--socket={socket}")
    until(socket.is_socket, "mariadbd listens")
    daemon("slurmdbd", "-D")
    manage = [*network.enter(HEAD), "sacctmgr", "--immediate"]
    ask = [*manage, "show", "cluster"]
    until(lambda: subprocess.run(ask, capture_output=True).returncode == 0, "slurmdbd answers")
    for words in ("add cluster npc", f"add account users {limits}", f"add user {USER} account=users"):
        subprocess.run([*manage, *words.split()], check=True, stdout=subprocess.DEVNULL)


def _open_python(folder: Path, network: Network) -> None:
    """Let ordinary users start this Python, which may lie in a home folder that only root can enter."""
    python = Path(sys.base_prefix)
    closed = next((place for place in reversed(python.parents) if not place.stat().st_mode & 0o001), None)
    if closed is not None:
        opened = folder / "opened"
        inside = opened / python.relative_to(closed)
        inside.mkdir(parents=True)
        for host in network.addresses:
            network.inside(host, f"mount --bind {python} {inside} && mount --rbind {opened} {closed}")


def _write_configuration(
    folder: Path, settings: Mapping[str, Any], nodes: Sequence[str], addresses: Mapping[str, str]
) -> None:
    """slurm.conf and what belongs to it."""
    # slurmd 22.05 loads a cgroup plugin even if nothing uses it, and finding one fails without any
    # cgroups; the one for version 1 is there and touches nothing.
    (folder / "slurm" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "slurm" / "plugstack.conf").touch()
    for name, text in settings["files"].items():
        (folder / "slurm" / name).write_text(text)
    socket = f"socket={folder}/munge/socket"
    accounting = {"AccountingStorageType": "accounting_storage/none"}
    if settings["limits"]:
        (folder / "database").mkdir()
        accounting = {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": addresses[HEAD],
            "AccountingStorageEnforce": "limits",
            "AccountingStoragePass": f"{folder}/munge/socket",
        }
        (folder / "slurm" / "slurmdbd.conf").touch(mode=0o600)
        (folder / "slurm" / "slurmdbd.conf").write_text(
            f"AuthType=auth/munge\nAuthInfo={socket}\nDbdHost={HEAD}\nDbdAddr={addresses[HEAD]}\n"
            f"SlurmUser=root\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStorageUser=root\n"
            f"LogFile={folder}/log/slurmdbd.log\nPidFile={folder}/slurmdbd.pid\n"
        )
    values = {
        "ClusterName": "npc",
        "SlurmctldHost": f"{HEAD}({addresses[HEAD]})",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": socket,
        "CredType": "cred/munge",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool-%n",
        "TmpFS": f"{folder}/tmp-%n",  # one for all makes PMIx collide
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/slurmd-%n.pid",
        "SlurmctldLogFile": f"{folder}/log/slurmctld.log",
        "SlurmdLogFile": f"{folder}/log/slurmd-%n.log",
        "MailProg": "/bin/true",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "PropagateResourceLimits": "NONE",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "batch_sched_delay=0,bf_interval=5",
        # nodes have the CPUs that slurm.conf says, whatever this machine has
        "SlurmdParameters": "config_overrides",
        "JobAcctGatherType": "jobacct_gather/none",
        **accounting,
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": f"{folder}/log/jobcomp.txt",
        "JobRequeue": "0",
        "ReturnToService": "2",
        "SlurmdTimeout": "10",
        "SlurmctldTimeout": "10",
        "MessageTimeout": "10",
        "KillWait": "3",
        "MinJobAge": "3600",
    } | settings["extra_conf"]
    lines = [f"{key}={value}" for key, value in values.items()]
    half = (len(nodes) + 1) // 2
    for number, host in enumerate(nodes):
        kind = "cluster" if number < half else "booster"
        lines.append(
            f"NodeName={host} NodeAddr={addresses[host]} Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 "
            f"RealMemory=4000 Feature={kind} State=UNKNOWN {settings['node_conf']}"
        )
    for name, rest in settings["partitions"].items():
        lines.append(f"PartitionName={name} MaxTime=60 DefaultTime=10 State=UP {rest}")
    (folder / "slurm" / "slurm.conf").write_text("\n".join(lines) + "\n")


def _end_all_in_network_of(pid: int) -> None:
    """Kill everything in a process's network namespace but itself: daemons, and what tests left there."""
    network = Path(f"/proc/{pid}/ns/net").readlink()
    for _ in range(100):
        found = False
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if (entry / "ns/net").readlink() == network and int(entry.name) != pid:
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = found or _runs(int(entry.name))
        if not found:
            return
        time.sleep(0.01)


def _identity(pid: int) -> str:
    """A pid and when its process started, in clock ticks: a pid alone may be another's by now."""
    return f"{pid} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"


# -- the command line ----------------------------------------------------------------------------------


def up(folder: Path, nodes: int) -> None:
    """Start a cluster that stays until `down`."""
    problem = missing()
    if problem:
        raise SystemExit(problem)
    with contextlib.suppress(FileNotFoundError):
        if _holder_of(folder):
            raise SystemExit(f"a cluster is up already in {folder}")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    try:
        _hold(folder, Cluster(nodes)._settings, subprocess.DEVNULL)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    print(f"{nodes} nodes are up. A shell on the head node:")
    print(f"  {sys.executable} -m tests.lab.cluster run head bash")


def down(folder: Path) -> None:
    """End the cluster in `folder`, and only that one."""
    pid = _holder_of(folder) if folder.exists() else 0
    if pid:
        os.kill(pid, signal.SIGTERM)
        until(lambda: not _runs(pid), "the cluster ends")
    shutil.rmtree(folder, ignore_errors=True)
    print("the cluster is down" if pid else "no cluster is up")


def _holder_of(folder: Path) -> int:
    """The pid of the process that holds the cluster in `folder`; 0 if it is gone."""
    identity = (folder / "holder").read_text()
    pid = int(identity.split()[0])
    return pid if _runs(pid) and _identity(pid) == identity else 0


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.cluster")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cluster")
    commands = parser.add_subparsers(dest="verb", required=True)
    commands.add_parser("up").add_argument("--nodes", type=int, choices=range(1, 100), default=4)
    commands.add_parser("down")
    run = commands.add_parser("run")
    run.add_argument("host")
    run.add_argument("command", nargs=argparse.REMAINDER)
    shape = commands.add_parser("shape")
    shape.add_argument("host")
    shape.add_argument("rate_mbit", type=float)
    held = commands.add_parser("hold")
    held.add_argument("--stay", action="store_true")
    held.add_argument("place", type=Path)
    held.add_argument("settings", type=json.loads)
    given = parser.parse_args()
    if given.verb == "hold":
        hold(given.place, given.settings, given.stay)
    elif given.verb == "up":
        up(given.folder.absolute(), given.nodes)
    elif given.verb == "down":
        down(given.folder.absolute())
    else:
        try:
            cluster = Cluster.attached(given.folder.absolute())
        except FileNotFoundError:
            raise SystemExit("no cluster is up: make cluster-up") from None
        if given.host not in cluster.network.addresses:
            raise SystemExit(f"no host {given.host}: there are {', '.join(cluster.network.addresses)}")
        if given.verb == "shape":
            cluster.shape(given.host, given.rate_mbit)
        else:
            command = cluster.command(given.host, given.command or ["bash"])
            os.execvpe(command[0], command, cluster.environment())


if __name__ == "__main__":
    main()
