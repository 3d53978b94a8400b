"""Hosts on one machine: each in a network namespace with its own name and /etc/hosts, joined by a bridge.

Nothing is added to the machine's own network. A host lives as long as its keeper, a process that ends when
the pipe to the one that started it closes: however that ends, the hosts go with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

#: The namespace of the bridge that joins the hosts.
BRIDGE = "sw"

# In a pid namespace the shell is the init process: it collects the processes that others left to it, and
# all processes of the host end with it. Its pid outside is known only before the namespace's own /proc.
_KEEPER = """
read -r pid _ < /proc/self/stat
{machine}
mount -t sysfs sysfs /sys
mount --bind "$1"/hosts /etc/hosts
hostname "$2"
ip link set lo up
echo "$pid"
read -r _
"""
_MACHINE = "mount -t proc proc /proc\nmount -t tmpfs tmpfs /dev/shm"


class Network:
    """The hosts by name and address, the links between them, and the way onto a host.

    pids: a process of each host, and of ``sw``, where the other ends p-HOST of their eth0 are.
    machines: those of them that have processes and shared memory of their own, too.
    """

    def __init__(
        self, addresses: Mapping[str, str], pids: Mapping[str, int], machines: Collection[str] = ()
    ) -> None:
        self.addresses = dict(addresses)
        self._pids = pids
        self._machines = frozenset(machines)

    def enter(self, host: str) -> list[str]:
        """What to write before a command that is to run on a host, in the current folder.

        On a machine ``nsenter`` stays as the command's parent; elsewhere it becomes the command.
        """
        spaces = ["--net", "--uts", "--mount", *(["--pid", "--ipc"] if host in self._machines else [])]
        return ["nsenter", "-t", str(self._pids[host]), *spaces, f"--wdns={Path.cwd()}", "--"]

    def inside(self, host: str, command: str) -> str:
        """Run a shell command on a host and return what it prints; raises if it fails."""
        return subprocess.run(
            [*self.enter(host), "sh", "-c", command],
            check=True,
            timeout=20,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def path(self, host: str, path: Path) -> Path:
        """An absolute path as a host sees it, with what is mounted there alone."""
        return Path(f"/proc/{self._pids[host]}/root") / path.relative_to("/")

    def connect(self) -> None:
        """Make the bridge and plug every host into it, with its address."""
        lines = ["link add br0 type bridge", "link set br0 up"]
        for host in self.addresses:
            lines.append(f"link add p-{host} type veth peer name eth0 netns {self._pids[host]}")
            lines.append(f"link set p-{host} master br0 up")
        self.inside(BRIDGE, f"ip -batch - <<'END'\n{chr(10).join(lines)}\nEND")
        for host, address in self.addresses.items():
            self.inside(host, f"ip addr add {address}/24 dev eth0 && ip link set eth0 up")

    def shape(self, host: str, rate_mbit: float, burst_kb: int = 64) -> None:
        """Limit what a host sends, and what it is sent, by a token bucket."""
        self.shape_sending(host, rate_mbit, burst_kb)
        limit = f"root tbf rate {rate_mbit}mbit burst {burst_kb}kb latency 50ms"
        self.inside(BRIDGE, f"tc qdisc replace dev p-{host} {limit}")

    def shape_sending(self, host: str, rate_mbit: float, burst_kb: int = 64, device: str = "eth0") -> None:
        """Limit what a host sends alone."""
        limit = f"root tbf rate {rate_mbit}mbit burst {burst_kb}kb latency 50ms"
        self.inside(host, f"tc qdisc replace dev {device} {limit}")

    def slow_link(self, a: str, b: str, rate_mbit: float, back_mbit: float) -> None:
        """A link of its own between two hosts, with its rate from `a` to `b` and that of the way back."""
        self.inside(a, f"ip link add slow type veth peer name slow netns {self._pids[b]}")
        for own, other, rate in ((a, b, rate_mbit), (b, a, back_mbit)):
            to, source = self.addresses[other], self.addresses[own]
            self.inside(own, f"ip link set slow up && ip route add {to}/32 dev slow src {source}")
            self.shape_sending(own, rate, device="slow")

    def cut(self, host: str) -> None:
        """Pull a host's cable: no packet, no error, nothing."""
        self.inside(BRIDGE, f"ip link set p-{host} down")

    def mend(self, host: str) -> None:
        """Plug the cable in again."""
        self.inside(BRIDGE, f"ip link set p-{host} up")

    def bytes(self, host: str) -> tuple[int, int]:
        """What a host has received and sent so far on eth0, in bytes."""
        folder = "/sys/class/net/eth0/statistics"
        received, sent = self.inside(host, f"cat {folder}/rx_bytes {folder}/tx_bytes").split()
        return int(received), int(sent)


class Keepers:
    """Starts hosts and ends them. Raises RuntimeError where that is not possible (root is needed)."""

    def __init__(self, folder: Path, addresses: Mapping[str, str], machines: Collection[str] = ()) -> None:
        """Start them, connected; `folder` keeps their /etc/hosts. `machines`: see `Network`."""
        names = "".join(f"{address} {host}\n" for host, address in addresses.items())
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + names)
        self._keepers = {host: _start(folder, host, host in machines) for host in (BRIDGE, *addresses)}
        self.pids: dict[str, int] = {}
        try:
            for host, keeper in self._keepers.items():
                assert keeper.stdout is not None
                answer = keeper.stdout.readline()
                if not answer:
                    raise RuntimeError(f"no host {host}: its keeper ended with {keeper.wait()}")
                self.pids[host] = int(answer)
            self.network = Network(addresses, self.pids, machines)
            self.network.connect()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End the hosts, and on machines whatever runs there."""
        for keeper in self._keepers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper.pid, signal.SIGKILL)  # takes the init process of a machine with it
        for keeper in self._keepers.values():
            keeper.wait()
            for stream in (keeper.stdin, keeper.stdout):
                if stream:
                    stream.close()


def _start(folder: Path, host: str, machine: bool) -> subprocess.Popen[bytes]:
    spaces = ["--net", "--uts", "--mount", "--propagation", "private"]
    if machine:
        spaces += ["--pid", "--ipc", "--fork", "--kill-child"]
    script = "set -e" + _KEEPER.format(machine=_MACHINE if machine else "")
    return subprocess.Popen(
        ["unshare", *spaces, "bash", "-c", script, "keeper", str(folder), host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Ctrl-C is for the tests, which then end the hosts
        start_new_session=True,
    )
