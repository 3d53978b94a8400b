"""Runs a command on files of its own: ``python in_folder.py --target scratch -- ior -o FOLDER/file``.

Makes a folder below the target, puts its path where the command has ``FOLDER``, tells above the command's
output where that was, and removes the folder however it ends. On several nodes the target has to be a file
system that they share: this runs on the first of them.
"""

from __future__ import annotations

import argparse
import json
import sys

from npc.jobs.own_folder import NoPlace, OwnFolder, filled, place_of
from npc.machine.mounts import mounted
from npc.records.units import parse_size


def main() -> int | str:
    """The command's exit code; or why it cannot be run, for a person."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="run", help="run, scratch, or a folder")
    parser.add_argument("--scratch", default="", help="the node's own; empty: $TMPDIR, else /tmp")
    parser.add_argument("--size", type=parse_size, default=0, help="bytes of all files")
    parser.add_argument("--files", type=int, default=0, help="number of files")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with OwnFolder(place_of(options.target, options.scratch)) as folder:
        try:
            folder.make(options.size, options.files)
            filesystem, device = mounted(folder.path)
            head = {"target": options.target, "filesystem": filesystem, "device": device}
            head["filled"] = filled(folder.path)
            print(f"# NPC files: {json.dumps(head)}", flush=True)
            return folder.run([word.replace("FOLDER", str(folder.path)) for word in options.command])
        except NoPlace as error:
            return f"unavailable: {error}"
        except OSError as error:
            return f"unavailable: {options.command[0]}: {error.strerror}"


if __name__ == "__main__":
    sys.exit(main())
