"""A real Grid Engine on this machine: a head node and g1…gN, with real sge_qmaster and sge_execd.

In a test::

    with GridEngine(nodes=2) as cluster:
        cluster.run(["qsub", "job.sh"])

and by hand, with a shell on the head node::

    python -m tests.lab.grid_engine

Debian's packages are unpacked, not installed (``tests/lab/fetch_packages.sh``), and lie over /usr on these
hosts alone. Every host is a network, process and mount namespace, and all that runs there ends with it, also
where the test is killed. It needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.cluster import until
from tests.lab.hosts import Keepers
from tests.paths import ROOT

HEAD = "head"
UNPACKED = ROOT / ".venv/share/npc/grid-engine"
_PREFIX = "10.78.0"
_BIN = "/usr/lib/gridengine"
#: sge_conf(5). All of it as Debian has it, but: root may submit, the accounting is written at once, and
#: nothing is asked of a mail server.
_CONFIGURATION = {
    "mailer": "/bin/true",
    "administrator_mail": "none",
    "min_uid": "0",
    "min_gid": "0",
    "load_report_time": "00:00:05",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
}
#: queue_conf(5): what differs from ``qconf -sq``'s template.
_QUEUE = {
    "qname": "all.q",
    "load_thresholds": "NONE",
    "pe_list": "mpi",
    "slots": "2",
    "shell": "/bin/bash",
    "shell_start_mode": "unix_behavior",
}
_PARALLEL = {
    "pe_name": "mpi",
    "slots": "999",
    "user_lists": "NONE",
    "xuser_lists": "NONE",
    "start_proc_args": "NONE",
    "stop_proc_args": "NONE",
    "allocation_rule": "$fill_up",
    "control_slaves": "TRUE",
    "job_is_first_task": "FALSE",
    "urgency_slots": "min",
    "accounting_summary": "TRUE",
    "qsort_args": "NONE",
}
_SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
_HOST = (
    "load_scaling", "complex_values", "user_lists", "xuser_lists", "projects", "xprojects", "usage_scaling",
    "report_variables",
)  # fmt: skip


def missing() -> str:
    """What keeps a Grid Engine from being started here; empty if nothing does."""
    if os.geteuid() != 0:
        return "a Grid Engine of its own needs root"
    if not (UNPACKED / f"{_BIN[1:]}/sge_qmaster").exists():
        return "no Grid Engine: tests/lab/fetch_packages.sh"
    return (
        "" if "overlay" in Path("/proc/filesystems").read_text() else "the kernel has no overlay file system"
    )


class GridEngine:
    """The cluster, as a context manager. Each node has two slots."""

    def __init__(self, nodes: int = 2) -> None:
        self.nodes = [f"g{number}" for number in range(1, nodes + 1)]

    def __enter__(self) -> GridEngine:
        if problem := missing():
            raise RuntimeError(problem)
        self.folder = Path(tempfile.mkdtemp(prefix="npc-sge-"))
        addresses = {HEAD: f"{_PREFIX}.1", **{h: f"{_PREFIX}.{10 + i}" for i, h in enumerate(self.nodes)}}
        self._keepers: Keepers | None = None
        try:
            self._keepers = Keepers(self.folder, addresses, [HEAD, *self.nodes])
            self.network = self._keepers.network
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._keepers:
            self._keepers.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """For commands on its hosts: no variables of a job around the test."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM", "PMI", "SGE_", "JOB_"))
        }
        mine = {"SGE_ROOT": f"{self.folder}/root", "SGE_CELL": "default", "TMPDIR": f"{self.folder}/tmp"}
        return {**kept, **mine, "SGE_QMASTER_PORT": "6444", "SGE_EXECD_PORT": "6445", **(extra or {})}

    def command(self, words: Sequence[str | Path], host: str = HEAD) -> list[str]:
        """The command line that runs a command on a host."""
        return [*self.network.enter(host), "setpriv", "--pdeathsig", "KILL", "--", *map(str, words)]

    def run(
        self,
        words: Sequence[str | Path],
        host: str = HEAD,
        timeout: float = 60.0,
        check: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host to its end."""
        entered = [
            f"--wdns={cwd}" if cwd and word.startswith("--wdns=") else word
            for word in self.command(words, host)
        ]
        return subprocess.run(
            entered,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=check,
            env=self.environment(env),
        )

    def _start(self) -> None:
        root = self.folder / "root"
        common, spool = root / "default/common", self.folder / "spool"
        for path in (common, spool / "qmaster/job_scripts", spool / "execd", root, self.folder / "tmp"):
            path.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "utilbin", "lib"):
            (root / name).mkdir()
            (root / name / "lx-amd64").symlink_to(_BIN)
        (root / "util").symlink_to("/usr/share/gridengine/util")
        (common / "act_qmaster").write_text(f"{HEAD}\n")
        (common / "bootstrap").write_text(
            "admin_user none\ndefault_domain none\nignore_fqdn true\nspooling_method classic\n"
            f"spooling_lib libspoolc\nspooling_params {common};{spool}/qmaster\nbinary_path {root}/bin\n"
            f"qmaster_spool_dir {spool}/qmaster\nsecurity_mode none\nlistener_threads 2\nworker_threads 2\n"
            "scheduler_threads 1\n"
        )
        shipped = (UNPACKED / "usr/share/gridengine/default-configuration").read_text()
        conf = {**_rows(shipped), **_CONFIGURATION, "execd_spool_dir": f"{spool}/execd"}
        (common / "configuration").write_text(_text(conf))
        for host in (HEAD, *self.nodes):
            self.network.inside(host, f"mount -t overlay overlay -o lowerdir={UNPACKED}/usr:/usr /usr")
        library = {"LD_LIBRARY_PATH": _BIN}
        self.run(
            [f"{_BIN}/spoolinit", "classic", "libspoolc", f"{common};{spool}/qmaster", "init"], check=True
        )
        defaults = f"{_BIN}/spooldefaults.bin"
        for what, value in (
            ("complexes", "/usr/share/gridengine/util/resources/centry"),
            ("usersets", "/usr/share/gridengine/util/resources/usersets"),
            ("managers", "root"),
        ):
            self.run([defaults, what, value], check=True, env=library)
        self.run([f"{_BIN}/sge_qmaster"], check=True)
        until(
            lambda: self.run(["qconf", "-ss"]).returncode == 0 or bool(self._admin()), "sge_qmaster answers"
        )
        self.run(["qconf", "-as", HEAD])
        for host in self.nodes:
            self.run(["qconf", "-ah", host], check=True)
            self._configure("-Ae", {"hostname": host, **dict.fromkeys(_HOST, "NONE")})
            self.run([f"{_BIN}/sge_execd"], host, check=True)
        self._configure("-Msconf", {**_rows(self.run(["qconf", "-ssconf"], check=True).stdout), **_SCHEDULER})
        self._configure("-Ap", _PARALLEL)
        template = _rows(self.run(["qconf", "-sq"], check=True).stdout)
        self._configure("-Aq", {**template, **_QUEUE, "hostlist": " ".join(self.nodes)})
        until(lambda: self.run(["qhost"]).stdout.count("lx-amd64") == len(self.nodes), "all nodes report")

    def _admin(self) -> str:
        return self.run(["qconf", "-sh"]).stdout

    def _configure(self, option: str, rows: Mapping[str, str]) -> None:
        file = self.folder / "tmp/qconf"
        file.write_text(_text(rows))
        done = self.run(["qconf", option, file])
        if done.returncode:
            raise RuntimeError(f"qconf {option}: {done.stdout}{done.stderr}")


def _rows(text: str) -> dict[str, str]:
    """Keys and values as qconf prints them; a value goes on after a backslash."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return {name: " ".join(rest) for name, *rest in map(str.split, lines)}


def _text(rows: Mapping[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in rows.items())


def main() -> None:
    """A shell on the head node, until it ends."""
    with GridEngine() as cluster:
        subprocess.run(cluster.command(["bash"]), env=cluster.environment(), check=False)


if __name__ == "__main__":
    main()
