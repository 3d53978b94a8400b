"""A small cluster on one machine: hosts in network namespaces, joined by a bridge, with links of known speed.

Each host has its own network, host name and /etc/hosts; a bridge in a namespace of its own joins them.
Nothing is added to the machine's own network, and everything goes with the processes that hold it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.npb_job import NPB, Job, mpirun

_PREFIX = "10.99.0"


class Cluster:
    """Hosts n1…nN at 10.99.0.1…N. Use it as a context manager; needs root."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self.hosts = [f"n{number}" for number in range(1, size + 1)]
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        names = "".join(f"{_PREFIX}.{number} {host}\n" for number, host in enumerate(self.hosts, 1))
        (self._folder / "hosts").write_text("127.0.0.1 localhost\n" + names)
        try:
            for host in ["sw", *self.hosts]:
                self._start(host)
            self.inside("sw", "ip link add br0 type bridge && ip link set br0 up")
            for number, host in enumerate(self.hosts, 1):
                pid = self._keepers[host].pid
                self.inside("sw", f"ip link add p-{host} type veth peer name eth0 netns {pid}")
                self.inside("sw", f"ip link set p-{host} master br0 up")
                self.inside(host, f"ip addr add {_PREFIX}.{number}/24 dev eth0 && ip link set eth0 up")
            cases = "".join(f"{host}) p={self._keepers[host].pid};;\n" for host in self.hosts)
            agent = self._folder / "remote-shell"
            agent.write_text(
                "#!/bin/sh\nh=$1; shift\ncase $h in\n" + cases + "*) exit 1;;\nesac\n"
                'exec nsenter -t "$p" --net --uts --mount --wdns="$PWD" -- sh -c "$*"\n'
            )
            agent.chmod(0o755)
            (self._folder / "slots").write_text("".join(f"{host} slots=1\n" for host in self.hosts))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for keeper in self._keepers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper.pid, signal.SIGKILL)
            keeper.wait()

    def inside(self, host: str, command: str) -> None:
        """Run a shell command on a host (or on ``sw``, the bridge's); raises if it fails."""
        subprocess.run([*self._enter(host), "sh", "-c", command], check=True, timeout=20)

    def shape(self, host: str, rate_mbit: float, burst_kb: int = 64) -> None:
        """Limit what a host sends, and what it is sent, by a token bucket."""
        limit = f"root tbf rate {rate_mbit}mbit burst {burst_kb}kb latency 50ms"
        self.inside(host, f"tc qdisc replace dev eth0 {limit}")
        self.inside("sw", f"tc qdisc replace dev p-{host} {limit}")

    def slow_link(self, a: str, b: str, rate_mbit: float) -> None:
        """A link of its own between two hosts, slower than their others."""
        second = self._keepers[b].pid
        subprocess.run(
            [*self._enter(a), *f"ip link add slow type veth peer name slow netns {second}".split()],
            check=True,
            timeout=20,
        )
        for own, other in ((a, b), (b, a)):
            to, source = (f"{_PREFIX}.{self.hosts.index(host) + 1}" for host in (other, own))
            self.inside(own, f"ip link set slow up && ip route add {to}/32 dev slow src {source}")
            self.inside(
                own, f"tc qdisc replace dev slow root tbf rate {rate_mbit}mbit burst 64kb latency 50ms"
            )

    def cut(self, host: str) -> None:
        """Pull a host's cable: no packet, no error, nothing."""
        self.inside("sw", f"ip link set p-{host} down")

    def job(self, *arguments: str, hosts: Sequence[str] = ()) -> Job:
        """npb with one rank a host, the launcher on the first."""
        used = list(hosts or self.hosts)
        command = [
            *self._enter(used[0]), mpirun(), "-np", str(len(used)), "--hostfile", str(self._folder / "slots"),
            "--host", ",".join(used), "--mca", "plm_rsh_agent", str(self._folder / "remote-shell"),
            "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl_tcp_if_include", "eth0",
            "--mca", "oob_tcp_if_include", "eth0", str(NPB), *arguments,
        ]  # fmt: skip
        return Job(command=command)

    def _enter(self, host: str) -> list[str]:
        return [
            "nsenter",
            "-t",
            str(self._keepers[host].pid),
            "--net",
            "--uts",
            "--mount",
            f"--wdns={Path.cwd()}",
            "--",
        ]

    def _start(self, host: str) -> None:
        script = (
            f"mount --bind {self._folder / 'hosts'} /etc/hosts && hostname {host} && ip link set lo up && "
            "echo up && exec sleep 1000000"
        )
        keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self._keepers[host] = keeper
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"up\n", f"no host {host}"
