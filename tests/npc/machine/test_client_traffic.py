"""What a node has moved from and to a file system, by its client's counters."""

from __future__ import annotations

from pathlib import Path

from npc.machine.client_traffic import moved_bytes

#: Forms of kernel 6.1's NFS client and of Lustre 2.15.
MOUNTS = """device proc mounted on /proc with fstype proc
device server:/home mounted on /home with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tage:\t90
\tbytes:\t7 7 7 7 1000 2000 1 1
device server:/home2 mounted on /home2 with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tbytes:\t26214400 52428800 0 52428800 4096 52432896 1 12800
"""
LLITE = """snapshot_time             1709568001.123456789 secs.nsecs
read_bytes                12 samples [bytes] 4096 1048576 8392704
write_bytes               16 samples [bytes] 4096 1048576 16777216
ioctl                     9 samples [reqs]
"""


def test_nfs_and_lustre_tell_of_the_mount_that_is_asked_for(tmp_path: Path) -> None:
    for name, text in (
        ("proc/self/mountstats", MOUNTS),
        ("sys/kernel/debug/lustre/llite/work-ffff8a1c/stats", LLITE),
        ("sys/kernel/debug/lustre/llite/work2-ffff8a1c/stats", LLITE.replace("8392704", "1")),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert moved_bytes(tmp_path, "nfs4", "server:/home2", tmp_path) == 4096 + 52432896
    assert moved_bytes(tmp_path, "nfs", "server:/home", tmp_path) == 3000
    assert moved_bytes(tmp_path, "lustre", "10.0.0.1@tcp:10.0.0.2@tcp:/work", tmp_path) == 8392704 + 16777216
    assert moved_bytes(tmp_path, "lustre", "10.0.0.1@tcp:/other", tmp_path) is None
    assert moved_bytes(tmp_path, "nfs4", "server:/nosuch", tmp_path) is None
    assert moved_bytes(tmp_path, "gpfs", "gpfs1", tmp_path) is None
