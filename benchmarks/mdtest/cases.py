"""The launches of mdtest: ``python cases.py > cases.jsonl`` for ``npc records sample --cases``.

Two forms, as IO500 has them: ``easy``, empty files in a folder for each process; ``hard``, files of 3901 B
in one folder of all. Who asks for a file is not who made it (``-N``), or the answer would be its own cache's.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from functools import partial

from npc.jobs.cases import program_of_ior, words_of, write

#: Bytes of a file of mdtest-hard (IO500's rules).
HARD = 3901
FORMS = {"easy": ["-u", "-L"], "hard": ["-t", "-w", str(HARD), "-e", str(HARD)]}


def cases(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """All of them. Raises ValueError for a setting that cannot be, or without mdtest."""
    mdtest = program_of_ior("mdtest", "mdtest_prefix", options.prefix)
    forms, files = words_of("mdtest_forms", options.forms, FORMS), options.files * options.tasks
    for target in filter(None, options.paths.split(",")):
        for form in forms:
            words = ["-n", str(options.files), "-F", "-N", str(options.processes), *FORMS[form]]
            values = {
                "target": target, "size": str(files * 4096), "files": str(2 * files),
                "program": shlex.quote(mdtest), "words": shlex.join([*words, "-d", "FOLDER"]),
            }  # fmt: skip
            yield {"name": f"{form} {target}", "values": values, "params": {"target": target}}


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no mdtest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", default="", help="root of a build; empty: the PATH")
    parser.add_argument("--paths", default="run", help="run, scratch, or folders; commas between")
    parser.add_argument("--tasks", type=int, default=2, help="processes of all nodes")
    parser.add_argument("--processes", type=int, default=1, help="processes of a node")
    parser.add_argument("--files", type=int, default=1000, help="of each process")
    parser.add_argument("--forms", default="easy,hard", help=f"of {', '.join(FORMS)}")
    return write(partial(cases, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
