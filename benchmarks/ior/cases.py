"""The launches of IOR: ``python cases.py > cases.jsonl`` for ``npc records sample --cases``.

Two forms, as IO500 has them: ``easy``, a file for each process and large transfers; ``hard``, one file of all
and 47008 bytes at a time, one process beside the other. ``--bytes`` bounds what all launches read and write
together; who reads is not who wrote, or it would read its own page cache.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial

from npc.jobs.cases import program_of_ior, words_of, write
from npc.records.units import format_size, parse_size

#: Bytes of a transfer of ior-hard (IO500's rules): no multiple of any block or stripe.
HARD = 47008
FORMS = ("easy", "hard")
APIS = ("POSIX", "MPIIO")
#: What is written is read once.
PASSES = 2


def cases(options: argparse.Namespace) -> list[dict[str, object]]:
    """All of them. Raises ValueError for a setting that cannot be, or without IOR."""
    ior = program_of_ior("ior", "ior_prefix", options.prefix)
    forms = words_of("ior_forms", options.forms, FORMS)
    apis = words_of("ior_apis", options.apis, APIS)
    targets, transfer = [word for word in options.paths.split(",") if word], parse_size(options.transfer)
    launches = options.samples * len(forms) * len(apis) * len(targets)
    if not launches:
        raise ValueError(f"io_paths {options.paths}: run, scratch, or folders, commas between")
    share_bytes = parse_size(options.bytes) // launches // PASSES // options.tasks
    listed: list[dict[str, object]] = []
    for target in targets:
        for form in forms:
            unit = transfer if form == "easy" else HARD
            number = share_bytes // unit
            if number < 1:
                needed = format_size(launches * PASSES * options.tasks * unit)
                raise ValueError(
                    f"ior_bytes {options.bytes} is too little for {launches} launches of {options.tasks} "
                    f"processes with transfers of {unit} bytes: --set ior_bytes={needed}, or fewer"
                )
            block, segments = (number * unit, 1) if form == "easy" else (unit, number)
            for api in apis:
                words = f"-a {api} -w -r -C -Q {options.processes} -e -g -t {unit} -b {block}".split()
                words += ["-s", str(segments), *(["-F"] if form == "easy" else []), "-o", "FOLDER/ior"]
                values = {
                    "target": target, "size": str(number * unit * options.tasks),
                    "program": shlex.quote(ior), "words": shlex.join(words),
                }  # fmt: skip
                listed.append(
                    {"name": f"{form} {api} {target}", "values": values, "params": {"target": target}}
                )
    return listed


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no IOR."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", default="", help="root of a build; empty: the PATH")
    parser.add_argument("--paths", default="run", help="run, scratch, or folders; commas between")
    parser.add_argument("--bytes", default="8G", help="that all launches together read and write at most")
    parser.add_argument("--samples", type=int, default=6, help="launches of each case")
    parser.add_argument("--tasks", type=int, default=2, help="processes of all nodes")
    parser.add_argument("--processes", type=int, default=1, help="processes of a node")
    parser.add_argument("--forms", default="easy,hard", help=f"of {', '.join(FORMS)}")
    parser.add_argument("--apis", default="POSIX", help=f"of {', '.join(APIS)}")
    parser.add_argument("--transfer", default="2M", help="bytes of a transfer of the form easy")
    return write(partial(cases, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
