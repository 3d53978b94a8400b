"""The launches of mdtest: ``python cases.py > cases.jsonl`` for ``npc sample --cases``.

Two forms, as IO500 has them: ``easy``, empty files in a folder for each process; ``hard``, files of 3901 B
in one folder of all. Who asks for a file is not who made it (``-N``), or the answer would be its own cache's.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import socket
import sys
from pathlib import Path

#: Bytes of a file of mdtest-hard (IO500's rules).
HARD = 3901
FORMS = {"easy": ["-u", "-L"], "hard": ["-t", "-w", str(HARD), "-e", str(HARD)]}


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no mdtest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", default="", help="root of a build; empty: the PATH")
    parser.add_argument("--paths", default="run", help="run, scratch, or folders; commas between")
    parser.add_argument("--tasks", type=int, default=2, help="processes of all nodes")
    parser.add_argument("--processes", type=int, default=1, help="processes of a node")
    parser.add_argument("--files", type=int, default=1000, help="of each process")
    parser.add_argument("--forms", default="easy,hard", help=f"of {', '.join(FORMS)}")
    options = parser.parse_args()
    below = (
        [path for path in Path(options.prefix).rglob("mdtest") if path.is_file()] if options.prefix else []
    )
    found = str(min(below)) if below else "" if options.prefix else shutil.which("mdtest")
    if not found:
        return (
            f"unavailable: mdtest: not found on {socket.gethostname()}: it comes with IOR: load the module, "
            "`spack install ior`, or build https://github.com/hpc/ior and name it by --set mdtest_prefix=PATH"
        )
    forms = [word for word in options.forms.split(",") if word]
    if not forms or not set(forms) <= set(FORMS):
        return f"cases.py: mdtest_forms {options.forms}: of {', '.join(FORMS)}"
    files = options.files * options.tasks
    for target in filter(None, options.paths.split(",")):
        for form in forms:
            words = ["-n", str(options.files), "-F", "-N", str(options.processes), *FORMS[form]]
            values = {
                "target": target, "size": str(files * 4096), "files": str(2 * files),
                "program": shlex.quote(found), "words": shlex.join([*words, "-d", "FOLDER"]),
            }  # fmt: skip
            print(json.dumps({"name": f"{form} {target}", "values": values, "params": {"target": target}}))
    return None


if __name__ == "__main__":
    sys.exit(main())
