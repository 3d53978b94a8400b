"""A small cluster without a scheduler: hosts in network namespaces, joined by links of known speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.lab.hosts import BRIDGE, Keepers, Network
from tests.lab.npb_job import NPB, Job, mpirun

_PREFIX = "10.99.0"


class Cluster(Network):
    """Hosts n1…nN at 10.99.0.1…N. Use it as a context manager; needs root."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self.hosts = [f"n{number}" for number in range(1, size + 1)]
        super().__init__({f"n{number}": f"{_PREFIX}.{number}" for number in range(1, size + 1)}, {})

    def __enter__(self) -> Cluster:
        self._keepers = Keepers(self._folder, self.addresses)
        self._pids = self._keepers.pids
        cases = "".join(f"{host}) p={self._pids[host]};;\n" for host in self.hosts)
        agent = self._folder / "remote-shell"
        agent.write_text(
            "#!/bin/sh\nh=$1; shift\ncase $h in\n" + cases + "*) exit 1;;\nesac\n"
            'exec nsenter -t "$p" --net --uts --mount --wdns="$PWD" -- sh -c "$*"\n'
        )
        agent.chmod(0o755)
        (self._folder / "slots").write_text("".join(f"{host} slots=1\n" for host in self.hosts))
        return self

    def __exit__(self, *_: object) -> None:
        self._keepers.end()

    def leaf(self, switch: str, hosts: Sequence[str], uplink_mbit: float | None = None) -> None:
        """Put hosts below a switch of their own, with an uplink to the bridge of the others."""
        lines = [
            f"link add {switch} type bridge",
            f"link set {switch} up",
            f"link add u-{switch} type veth peer name d-{switch}",
            f"link set u-{switch} master {switch} up",
            f"link set d-{switch} master br0 up",
            *(f"link set p-{host} master {switch}" for host in hosts),
        ]
        self.inside(BRIDGE, f"ip -batch - <<'END'\n{chr(10).join(lines)}\nEND")
        for end in ("u", "d") if uplink_mbit else ():
            limit = f"root tbf rate {uplink_mbit}mbit burst 64kb latency 50ms"
            self.inside(BRIDGE, f"tc qdisc replace dev {end}-{switch} {limit}")

    def job(self, *arguments: str, hosts: Sequence[str] = ()) -> Job:
        """npb with one rank a host, the launcher on the first."""
        used = list(hosts or self.hosts)
        command = [
            *self.enter(used[0]), mpirun(), "-np", str(len(used)), "--hostfile", str(self._folder / "slots"),
            "--host", ",".join(used), "--mca", "plm_rsh_agent", str(self._folder / "remote-shell"),
            "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl_tcp_if_include", "eth0",
            "--mca", "oob_tcp_if_include", "eth0", str(NPB), *arguments,
        ]  # fmt: skip
        return Job(command=command)
