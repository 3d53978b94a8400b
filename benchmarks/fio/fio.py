"""One launch of fio on a node, or on each node of a job: ``python fio.py --target run --size 58720256``.

In a folder of its own that it makes below the target, and removes however it ends, fio starts twice: for what
writes the files, then for what reads or changes the bytes that were written in the time there was, and for
names alone. ``--direct`` are tests past the page cache, ``--buffered`` those through it, where writing ends
with an fsync, ``--names`` of empty files.

It prints fio's documents (JSON+) as they are, above each a line with what they do not say: host, target, file
system and device, bytes of the files of a node. On several nodes (``mpirun -n 2 python fio.py …``) the
processes start fio together, and rank 0 prints the documents of all. What cannot be measured here (no space,
O_DIRECT refused) is ``unavailable``, with what would help.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from npc.jobs.own_folder import NoPlace, OwnFolder, filled, place_of
from npc.machine.command import exit_words, last_line
from npc.machine.mounts import mounted

#: What every fio is told. Files belong to all tests of a launch, so no test makes them before it begins.
COMMON = (
    "--output-format=json+", "--group_reporting", "--create_on_open=1", "--fallocate=none",
    "--clocksource=clock_gettime",  # the CPU's own would be calibrated at each start, which takes 0.1 s
)  # fmt: skip
SEQUENTIAL = ("write", "read")
ALIGNMENT = 4096
#: Of each process, however long they take.
FEWEST_FILES = 100
#: A stat is soon done, and fio counts whole milliseconds: all files are asked for several times.
MOST_ROUNDS = 100
#: Handles of a process of fio beside those of its files: 7 with fio 3.33.
OTHER_HANDLES = 24


def refuses_direct(folder: Path) -> str:
    """Why a file in a folder cannot be opened and written past the page cache; nothing where it can."""
    path = folder / "direct"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
        try:
            with mmap.mmap(-1, ALIGNMENT) as page:
                os.write(handle, page)
        finally:
            os.close(handle)
    except OSError as error:
        return f"O_DIRECT: {error.strerror}"
    finally:
        path.unlink(missing_ok=True)
    return ""


def jobs_of(options: argparse.Namespace, chosen: Sequence[str], size: int, direct: bool) -> list[str]:
    """fio's words for tests: each a job, and a group, of its own, one after another."""
    words: list[str] = []
    for test in chosen:
        sequential = test in SEQUENTIAL
        for block in (options.blocks if sequential else options.random_blocks).split(","):
            for depth in options.depths.split(",") if direct else ["1"]:
                way = "direct" if direct else "buffered"
                words += [f"--name={test} {way} {block} {depth}", "--stonewall", "--new_group"]
                words += [f"--rw={test}", f"--bs={block}", f"--direct={int(direct)}", f"--iodepth={depth}"]
                words += [f"--ioengine={'libaio' if direct else 'psync'}", f"--numjobs={options.processes}"]
                words += [f"--filename_format=data.{way}.$jobnum", f"--size={size}"]
                words += [f"--runtime={options.milliseconds}ms"]
                if not direct and test.endswith("write"):
                    words += ["--end_fsync=1"]
    return words


class NodeFio:
    """fio on this node: what it has printed."""

    def __init__(self, options: argparse.Namespace, folder: OwnFolder) -> None:
        self.options, self.folder = options, folder
        #: What goes above each document, and the document.
        self.printed: list[tuple[dict[str, Any], str]] = []
        self.head: dict[str, Any] = {"host": socket.gethostname(), "target": options.target}

    def prepare(self) -> str:
        """Make the folder, see what can be measured there. Raises NoPlace."""
        options = self.options
        if shutil.which("fio") is None:
            raise NoPlace(f"fio: not found in PATH on {self.head['host']}: apt-get install fio")
        size = options.size * options.processes
        names = options.files * options.processes if options.names else 0
        self.folder.make(size * (bool(options.direct) + bool(options.buffered)), names)
        self.head["filesystem"], self.head["device"] = mounted(self.folder.path)
        self.head["filled"] = filled(self.folder.path)
        if options.direct or options.buffered:
            self.head["file_size"] = size
        reason = refuses_direct(self.folder.path) if options.direct else ""
        if reason:
            reason = f"{self.head['filesystem'] or 'the file system'} refuses {reason}: --set fio_direct=no"
            missing = {"direct": "1", "processes": str(options.processes), "tests": options.direct}
            self.printed.append(({**self.head, **missing, "reason": reason}, ""))
            options.direct = []
        return ""

    def run(self, words: Sequence[str]) -> str:
        """Run fio in the folder, keep its document; what went wrong."""
        document = self.folder.path / "fio.json"
        command = ["fio", *COMMON, f"--directory={self.folder.path}", f"--output={document}", *words]
        code = self.folder.run(command, stdout=sys.stderr.fileno())
        text = document.read_text(encoding="utf-8", errors="replace") if document.exists() else ""
        head = {**self.head, "part": len(self.printed), "by_hand": shlex.join(command)}
        head["others"] = self.folder.others
        complaints, brace, rest = f"\n{text}".partition(
            "\n{\n"
        )  # fio's own complaints stand above the document
        text = f"{{\n{rest}" if brace else text
        self.printed.append((head, text))
        document.unlink(missing_ok=True)
        try:
            jobs = json.loads(text)["jobs"]
        except (ValueError, KeyError):
            jobs = []
        bad = next((job for job in jobs if job.get("error")), None)
        if not bad and jobs and not code:
            return ""
        what = f"{bad['jobname']}: {os.strerror(bad['error'])}" if bad else exit_words(code)
        what = ": ".join(filter(None, [what, last_line(complaints)]))
        return f"fio on {self.head['host']}: {what}"

    def work(self, writing: bool) -> str:
        """Start fio for what writes the files, or for all else; what went wrong. Raises NoPlace."""
        words: list[str] = []
        for direct, expected in ((True, self.options.direct), (False, self.options.buffered)):
            way, size = "direct" if direct else "buffered", self.options.size
            chosen = [test for test in expected if (test == "write") == writing]
            if writing and expected and not chosen:
                self.lay_out(way)  # what is read has to be written
            if chosen and not writing:
                size = self.written(way)
            words += jobs_of(self.options, chosen, size, direct)
        if not writing and self.options.names:
            words += self.jobs_of_names()
        return self.run(words) if words else ""

    def lay_out(self, way: str) -> None:
        """Write the files of a way, and wait for the disk."""
        block = os.urandom(1 << 20)
        for number in range(self.options.processes):
            with (self.folder.path / f"data.{way}.{number}").open("xb") as file:
                for begin in range(0, self.options.size, len(block)):
                    file.write(block[: self.options.size - begin])
                file.flush()
                os.fsync(file.fileno())

    def written(self, way: str) -> int:
        """Bytes that the files of a way all have, in whole blocks."""
        sizes = [path.stat().st_size for path in self.folder.path.glob(f"data.{way}.*")]
        whole = min(sizes, default=0) // self.options.largest * self.options.largest
        if not whole:
            raise NoPlace(
                f"{self.head['target']}: no block of every file was written in "
                f"{self.options.milliseconds} ms: --set fio_milliseconds=… with more"
            )
        return whole

    def jobs_of_names(self) -> list[str]:
        """fio's words for the tests of names, all on the same files."""
        (files, loops), words = self.affordable(), []
        for test in self.options.names:
            words += [f"--name={test}", "--stonewall", "--new_group", f"--ioengine={test}"]
            words += [f"--nrfiles={files}", "--filesize=4k", f"--numjobs={self.options.processes}"]
            words += ["--filename_format=name.$jobnum.$filenum"]
            words += [f"--loops={loops}"] if test == "filestat" else []
        return words

    def affordable(self) -> tuple[int, int]:
        """(files of a process, rounds of asking for them all) in the time of a test, by a few files."""
        names = [self.folder.path / f"first.{number}" for number in range(FEWEST_FILES // 2)]
        begin = time.monotonic()
        for name in names:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        made = time.monotonic()
        for name in names:
            name.stat()
        started = time.monotonic()
        for name in names:
            name.unlink()
        seconds = self.options.milliseconds / 1e3
        most = int(seconds / (made - begin) * len(names))
        # fio keeps all files open, and an ordinary user may have 1024 unless the limit is raised
        _, handles = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles))
        files = min(self.options.files, max(FEWEST_FILES, most), handles - OTHER_HANDLES)
        rounds = seconds / 4 / (started - made) * len(names) / files
        return files, max(1, min(int(rounds), MOST_ROUNDS))


def tests(text: str) -> list[str]:
    """Tests with commas between; ``no`` and nothing are none."""
    return [word for word in text.split(",") if word and word != "no"]


def main() -> str | None:
    """Run, print; what went wrong, for a person."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="run", help="run, scratch, or a folder")
    parser.add_argument("--scratch", default="", help="the node's own; empty: $TMPDIR, else /tmp")
    parser.add_argument("--nodes", type=int, default=1, help="processes of MPI, one on each node")
    parser.add_argument("--processes", type=int, default=1, help="fio's processes on a node")
    parser.add_argument("--size", type=int, default=64 << 20, help="bytes of the file of a process")
    parser.add_argument("--largest", type=int, default=1 << 20, help="bytes of the largest block")
    parser.add_argument("--milliseconds", type=int, default=100, help="at most, of a test")
    parser.add_argument(
        "--direct", type=tests, default="write,read,randread,randwrite", help="tests past the page cache"
    )
    parser.add_argument("--buffered", type=tests, default="write", help="tests through the page cache")
    parser.add_argument("--blocks", default="1M", help="of sequential tests")
    parser.add_argument("--random-blocks", default="4K", help="of random tests")
    parser.add_argument("--depths", default="16", help="requests in flight, past the page cache")
    parser.add_argument(
        "--names", type=tests, default="filecreate,filestat,filedelete", help="tests of names"
    )
    parser.add_argument("--files", type=int, default=2000, help="of each process, at most")
    options = parser.parse_args()
    comm = None
    if options.nodes > 1:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.size != options.nodes:
            return f"{comm.size} MPI ranks ran, {options.nodes} were asked for"
    with OwnFolder(place_of(options.target, options.scratch)) as folder:
        node, problem = NodeFio(options, folder), ""
        # nobody begins where somebody cannot
        for step in (node.prepare, partial(node.work, writing=True), partial(node.work, writing=False)):
            try:
                problem = step()
            except NoPlace as error:
                problem = f"unavailable: {error}"
            problem = next(filter(None, comm.allgather(problem)), "") if comm else problem
            if problem:
                break
        everybody = comm.gather(node.printed) if comm else [node.printed]
    if everybody is None:
        return None  # rank 0 tells
    for rank, printed in enumerate(everybody):
        for head, document in printed:
            missing = "" if document else " unavailable"
            print(f"# NPC fio{missing}: {json.dumps({**head, 'rank': rank, 'nodes': options.nodes})}")
            print(document, end="" if document.endswith("\n") or not document else "\n", flush=True)
    if not problem and not any(document for printed in everybody for _, document in printed):
        problem = next(f"unavailable: {head['reason']}" for printed in everybody for head, _ in printed)
    return problem or None


if __name__ == "__main__":
    sys.exit(main())
