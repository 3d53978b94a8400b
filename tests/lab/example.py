"""Record the shipped example anew, and all that is shown of it: ``make example [RUN=runs/000003]``.

The example is the run that is named, or one that is made now: some minutes, on a quiet machine. What shows it
is written anew: what README and pages show of terminals, the picture, the notebook.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

from tests import gallery
from tests.lab.jube_job import NPC
from tests.lab.pages import EXAMPLE, PAGES, example_in, printed_in, renew
from tests.paths import ROOT

#: Of an ``environment.json``: what tells of the user's folders and of nothing that is measured.
_PRIVATE: Final = ("command", "directory")
_PRIVATE_VARIABLES: Final = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


def main() -> int:
    """Exit code 0; 1 where a page shows what is no longer printed, which somebody has to write."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        record(Path(sys.argv[1]) if sys.argv[1:] else measure(folder / "measured"))
        example_in(folder)
        printed_in(folder, "npc roofline runs/000000")
        wrong = [line for page in PAGES for line in renew(page, folder)]
    run_notebook(ROOT / "docs" / "example.ipynb")
    gallery.main()
    for line in wrong:
        print(f"write by hand what is shown: {line}", file=sys.stderr)
    return 1 if wrong else 0


def measure(outpath: Path) -> Path:
    """A run of this machine, of all that runs by default. Raises subprocess.CalledProcessError."""
    subprocess.run([NPC, "characterise", "--output", outpath], check=True)
    return outpath / "000000"


def record(run: Path) -> None:
    """Make a run the example: its records and its environment, without the user's folders."""
    shutil.copyfile(run / "records.csv", EXAMPLE / "records.csv")
    seen: dict[str, Any] = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    for name in _PRIVATE:
        seen.pop(name, None)
    for name in _PRIVATE_VARIABLES:
        seen.get("variables", {}).pop(name, None)
    seen.get("host", {}).pop("addresses", None)
    text = json.dumps(seen, indent=2).replace(str(ROOT), "npc")
    (EXAMPLE / "environment.json").write_text(f"{text}\n", encoding="utf-8")


def run_notebook(path: Path) -> None:
    """Run a notebook where it lies, and keep what it prints."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    sys.exit(main())
