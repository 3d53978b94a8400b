"""Somebody who is not root on the nodes of a cluster that tests run on: a folder of theirs, and Python within
their reach."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.lab.cluster import HEAD, Cluster

#: Who that is: nobody, whom every system has.
UID = 65534
#: What to write before a command of theirs; without root's capabilities, which a change of user alone leaves.
AS_USER = (
    "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
)  # fmt: skip


def let_users_in(cluster: Cluster) -> None:
    """Make what users need reachable on all hosts: munge's socket, and a Python that lies in root's home.

    That home is hidden in the hosts' own mount namespaces by a folder which has nothing but the Python.
    """
    cluster.folder.chmod(0o755)
    (cluster.folder / "tmp").chmod(0o1777)
    closed = _closed_folder(Path(sys.executable).resolve())
    if closed is None:
        return
    folder, below = closed
    open_folder = cluster.folder / "open"
    (open_folder / below).mkdir(parents=True)
    for host in (HEAD, *cluster.nodes):
        place = open_folder / below
        cluster.network.inside(host, f"mount --bind {folder / below} {place}")
        cluster.network.inside(host, f"mount --rbind {open_folder} {folder}")


@contextlib.contextmanager
def users_folder() -> Iterator[Path]:
    """An empty folder of theirs."""
    folder = Path(tempfile.mkdtemp(prefix="npc-user-", dir="/tmp"))
    try:
        os.chown(folder, UID, UID)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _closed_folder(path: Path) -> tuple[Path, str] | None:
    """The first folder on the way to a file that others may not enter, and the name of the next one."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & 0o001:
            return folder, path.relative_to(folder).parts[0]
    return None
