"""The pictures of ``docs/gallery.md``, from the shipped example, and from made-up runs where it has nothing.

``make gallery`` makes them anew: ``python -m tests.gallery [FOLDER]``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from tests.paths import ROOT

FOLDER: Final = ROOT / "docs" / "gallery"
EXAMPLE: Final = ROOT / "docs" / "example" / "localhost" / "records.csv"
#: Pixels across: enough to read, and below 100 KB each.
_WIDTH: Final = 1200


def _run(command: Any, *words: str | Path, exits: int = 0) -> None:
    ended = CliRunner().invoke(command, [str(word) for word in words])
    assert ended.exit_code == exits, ended.output


def rooflines(folder: Path) -> None:
    from npc.roofline.commands import roofline

    _run(roofline, EXAMPLE, "--output", folder)


def gpus(folder: Path) -> None:
    from npc.roofline.commands import roofline

    _run(roofline, EXAMPLE.parents[1] / "h100", "--output", folder)
    if (file := folder / "roofline.png").exists():
        file.rename(folder / "roofline-gpu.png")


def sizes(folder: Path) -> None:
    from npc.roofline.comparison_command import sweep

    _run(sweep, EXAMPLE, "--output", folder)


def fit(folder: Path) -> None:
    from npc.roofline.fit_commands import fit

    _run(fit, EXAMPLE, "--plot", folder / "fit.png")


def comparisons(folder: Path) -> None:
    """The example beside a made-up machine, of which no series can be compared with it in numbers."""
    from npc.report.compare.command import compare
    from tests.made.run_folder import make_run

    _run(compare, EXAMPLE.parent, make_run(folder / "fuchs"), "--plot", folder, exits=1)


def efficiency(folder: Path) -> None:
    from npc.observe.mpi.efficiency_command import efficiency

    _run(efficiency, observed(folder / "observed"), "--output", folder)


def pairs(folder: Path) -> None:
    """Of 24 nodes of which one is slow, and of 512 behind leaf switches of which one is."""
    from npc.machine.fabric import parse
    from npc.npb.heatmap import draw
    from npc.npb.localise import localise_pairs
    from tests.made.pairs import Cluster, crossing, slow_node

    leaves = parse("\n".join(f"leaf{i}: n[{i * 32 + 1}-{i * 32 + 32}]" for i in range(16)))
    made = {
        "pairs": (Cluster(24, slow_node(7, 0.8)).rounds(), None),
        "pairs-many": (
            Cluster(512, crossing(range(33, 65), 0.8), topology=leaves).rounds("sample:4"), leaves,
        ),
    }  # fmt: skip
    for name, (results, topology) in made.items():
        localisation = localise_pairs(results, topology=topology)
        draw(
            results, localisation, folder / f"{name}.png", unit="B/s", topology=topology,
            title="qperf tcp_bw bandwidth 64 KiB", source="made up: one node or switch is 20 % slower",
        )  # fmt: skip


def nights(folder: Path) -> None:
    from npc.cron.commands.history import history
    from tests.made.run_folder import make_history

    made = make_history(folder / "history")
    _run(history, "--platform", "fuchs", "--history", made, "--figures", folder)
    for name, new in {"qperf": "nights", "nodes": "nights-nodes", "allocation": "nights-allocation"}.items():
        if (file := folder / f"{name}.png").exists():
            file.rename(folder / f"{new}.png")


#: What makes pictures in a folder → their names.
PRINTED: Final[Mapping[Callable[[Path], None], tuple[str, ...]]] = {
    rooflines: ("roofline", "mpi-roofline"),
    gpus: ("roofline-gpu",),
    sizes: ("sweep",),
    fit: ("fit",),
    comparisons: ("compare-sizes", "compare-rooflines"),
    efficiency: ("efficiency",),
    pairs: ("pairs", "pairs-many"),
    nights: ("nights", "nights-nodes", "nights-allocation"),
}
#: Pictures that pages alone have → where they stand in a page of made-up runs.
SHOWN: Final[Mapping[str, str]] = {
    "page-flame": "#hotspots figure",
    "page-memory": "#memory figure:has(svg.density)",
    "page-structures": "#memory figure:has(.band.solid), #memory figure",
    "page-inside-mpi": "#inside_mpi figure",
    "page-series": "#history figure",
    "page-phone": "#roofline figure",
}


def observed(folder: Path) -> Path:
    """A program that was looked into, with a study of it: one of its eight ranks computes longer."""
    from tests.made.inside import observed_runs
    from tests.made.memory_use import memory_use, rank_memory
    from tests.made.on_node import PROBES, STACKS, hotspots, put
    from tests.made.profiles import Job
    from tests.made.scaling_study import put_study

    job = Job(8, per_node=2)
    for _ in range(10):
        job.compute(*[1.0 if rank != 3 else 1.5 for rank in range(8)])
        job.collective("MPI_Allreduce")
        for rank in range(8):
            job.message(rank, (rank + 1) % 8, bytes=1000 * (rank + 1))
    parts = {
        "hotspots": hotspots(STACKS), "probes": PROBES,
        "memory": memory_use(rank_memory(pages=16, moments=8)),
    }  # fmt: skip
    return put_study(put(observed_runs(folder, job.profiles()), **parts))


def _page(folder: Path) -> Path:
    from npc.report.command import report
    from tests.made.run_folder import make_history, make_run

    runs = (make_run(folder / "run"), observed(folder / "observed"))
    made = make_history(folder / "nights")
    _run(report, *runs, "--history", made, "--output", folder / "page.html")
    return folder / "page.html"


def _screenshots(folder: Path) -> Iterator[Path]:
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(_page(folder).as_uri())
        page.evaluate("document.querySelector('nav').style.position = 'static'")  # else it is in the pictures
        for name, selector in SHOWN.items():
            page.set_viewport_size({"width": 390 if name == "page-phone" else 1200, "height": 900})
            page.locator(selector).first.screenshot(path=folder / f"{name}.png")
            yield folder / f"{name}.png"
        browser.close()


def _keep(file: Path, folder: Path) -> None:
    """A small copy."""
    from PIL import Image

    with Image.open(file) as image:
        small = image.convert("RGB")
        if small.width > _WIDTH:
            small = small.resize(
                (_WIDTH, round(small.height * _WIDTH / small.width)), Image.Resampling.LANCZOS
            )
        small = small.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        small.save(folder / file.name, optimize=True)


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for make, names in PRINTED.items():
        with tempfile.TemporaryDirectory() as scratch:
            make(Path(scratch))
            for name in names:
                _keep(Path(scratch) / f"{name}.png", folder)
    with tempfile.TemporaryDirectory() as scratch:
        for file in _screenshots(Path(scratch)):
            _keep(file, folder)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
