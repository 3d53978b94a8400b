"""``npc roofline``: records in; the table of ceilings, and roofline.json, .png, .svg and .html out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from npc.files import cannot_write
from npc.roofline.command_line import OUTPUT, RECORDS, failure, picture_folder, read_records

if TYPE_CHECKING:
    from pathlib import Path

    from npc.machine.platform import Platform
    from npc.records.record import Record
    from npc.roofline.overlay import By
    from npc.roofline.result import Roofline


@click.command(short_help="Ceilings of compute, memory and network: the picture.")
@RECORDS
@OUTPUT
@click.option(
    "--platform", "platform_name", metavar="NAME",
    help="Platform whose nominal limits are compared: a name in platforms/ or a platform.toml. "
    "By default the records' own.",
)  # fmt: skip
@click.option(
    "--nodes", default=1, show_default=True, type=click.IntRange(1),
    help="Ceilings of a job of that many nodes.",
)  # fmt: skip
@click.option("--message-size", metavar="SIZE", help="Network ceilings at this message size, such as 1KiB.")
@click.option(
    "--overlay", type=click.Choice(("platform", "node", "night")),
    help="Lay the rooflines of the platforms, nodes or nights in RECORDS over each other.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print roofline.json instead of the tables.")
def roofline(
    records: tuple[Path, ...],
    output: Path | None,
    platform_name: str | None,
    nodes: int,
    message_size: str | None,
    overlay: By | None,
    as_json: bool,
) -> None:
    """Ceilings of compute, memory and network, with ridge points, from RECORDS.

    RECORDS are run folders (or folders of runs: the newest is meant) or records.csv files. Writes
    roofline.json, roofline.png, roofline.svg and roofline.html, which needs no network to look at, beside
    the records; with several RECORDS into the present folder, unless --output names one.

    Exit code: 0; 1 if no record could be used; 2 for bad arguments or a folder that cannot be written.
    """
    import json

    from npc.columns import sentences
    from npc.roofline.analyse import analyse
    from npc.roofline.document import to_document
    from npc.roofline.table import format_roofline

    read = read_records(records)
    size = _message_size(message_size, read)
    folder = output or picture_folder(records)
    if overlay:
        _overlay(read, overlay, platform_name, nodes, size, folder, as_json)
        return
    platform = _platform(platform_name, read)
    read = _one_platform(read, platform)
    analysed = analyse(read, platform, nodes, size)
    if not (analysed.ceilings or analysed.latencies or analysed.applications or analysed.callers):
        raise failure(_nothing_usable(analysed, len(read)), 1)
    if as_json:
        click.echo(json.dumps(to_document(analysed), indent=1))
    else:
        click.echo(sentences(format_roofline(analysed)) + "\n")
    try:
        paths = write_pictures(analysed, folder)
    except OSError as error:
        raise failure(cannot_write(folder, error)) from None
    for path in paths:
        click.echo(path, err=as_json)
    if not any(path.name == "roofline.png" for path in paths):
        click.echo(
            "No picture: without a compute ceiling there is no roof. The compute benchmark (likwid-bench "
            "peakflops) measures one; node limits in platform.toml give a theoretical one.",
            err=True,
        )


def write_pictures(roofline: Roofline, folder: Path) -> list[Path]:
    """Write roofline.json, the pictures and the page where there is a roof, and the MPI roofline's pictures
    where there are MPI operations; give back their paths.

    Makes `folder`. Each file replaces an older one only when it is whole. A picture that these records do not
    give is removed, because an older one would show other records. If a later file fails, the files before it
    stay. Raises OSError.
    """
    import json

    from npc.files import replacing, write_whole
    from npc.roofline.document import to_document
    from npc.roofline.figure import draw
    from npc.roofline.mpi_plot import draw_mpi
    from npc.roofline.page import write_page

    folder.mkdir(parents=True, exist_ok=True)
    pictures = [folder / f"roofline.{suffix}" for suffix in ("png", "svg", "html")]
    mpi = [folder / f"mpi-roofline.{suffix}" for suffix in ("png", "svg")]
    write_whole(folder / "roofline.json", json.dumps(to_document(roofline), indent=1) + "\n")
    with replacing(pictures[0]) as png, replacing(pictures[1]) as svg, replacing(pictures[2]) as html:
        roof = draw(roofline, [png, svg]) and write_page(roofline, html)
    with replacing(mpi[0]) as png, replacing(mpi[1]) as svg:
        operations = draw_mpi(roofline, [png, svg])
    absent = ([] if roof else pictures) + ([] if operations else mpi)
    for path in absent:
        path.unlink(missing_ok=True)
    return [path for path in (folder / "roofline.json", *pictures, *mpi) if path not in absent]


def _overlay(
    records: list[Record],
    by: By,
    platform_name: str | None,
    nodes: int,
    message_size: int | None,
    folder: Path,
    as_json: bool,
) -> None:
    """Analyse each platform, node or night by itself, and draw them in one picture."""
    import json

    from npc.files import replacing, write_whole
    from npc.roofline.analyse import analyse
    from npc.roofline.document import SCHEMA, to_document
    from npc.roofline.overlay import check, draw_overlay, split
    from npc.roofline.result import ROOFS
    from npc.roofline.table import format_roofline

    if by != "platform":
        records = _one_platform(records, _platform(platform_name, records))
    groups = split(records, by)
    try:
        check(groups)
    except ValueError as error:
        raise failure(f"--overlay {by}: {error}; give fewer RECORDS") from None
    rooflines = {
        name: analyse(some, _platform(platform_name, some), nodes, message_size)
        for name, some in groups.items()
    }
    document = {
        "schema": SCHEMA,
        "overlay": by,
        "rooflines": {n: to_document(r) for n, r in rooflines.items()},
    }
    if as_json:
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo(
            "\n\n".join(f"{by} {name}\n{format_roofline(roofline)}" for name, roofline in rooflines.items())
            + "\n"
        )
    paths = [folder / f"overlay.{suffix}" for suffix in ("png", "svg")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(paths[0]) as png, replacing(paths[1]) as svg:
            drawn = draw_overlay(rooflines, f"Rooflines by {by}", [png, svg])
        write_whole(folder / "overlay.json", json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise failure(cannot_write(folder, error)) from None
    for path in [folder / "overlay.json", *(paths if drawn else [])]:
        click.echo(path, err=as_json)
    if not drawn:
        raise failure(f"--overlay {by}: none of them has a compute ceiling, so there is no roof to draw", 1)
    roofless = [
        name for name, roofline in rooflines.items() if not (roofline.of_kind(*ROOFS) or roofline.theoretical)
    ]
    if roofless:
        click.echo(f"Not in the picture, without a compute ceiling: {', '.join(roofless)}.", err=True)


def _message_size(text: str | None, records: Sequence[Record]) -> int | None:
    """Bytes of the size asked for, if a network test used it or sizes on both sides of it."""
    from npc.records.units import format_size, parse_size
    from npc.roofline.ceilings import find_ceilings

    if text is None:
        return None
    try:
        size = parse_size(text)
    except ValueError as error:
        raise failure(f"--message-size {error}") from None
    curves = [
        {point.size for point in curve.points if point.size}
        for curve in find_ceilings(records).curves
        if curve.metric == "bandwidth"
    ]
    if not any(sizes and min(sizes) <= size <= max(sizes) for sizes in curves):
        known = ", ".join(map(format_size, sorted(set().union(*curves)))) or "none with a size"
        raise failure(
            f"--message-size {text}: nothing was measured at that size or on both sides of it; "
            f"there are {known}",
        )
    return size


def _platform(name: str | None, records: Sequence[Record]) -> Platform | None:
    """The platform asked for, or the one the records name if it is known here."""
    from npc.machine.platform import InvalidPlatform
    from npc.validity.run import platform_of

    try:
        platform = platform_of(records, name or "")
    except OSError as error:
        raise failure(f"{error.filename}: {error.strerror}") from None
    except InvalidPlatform as error:
        raise failure(str(error)) from None
    if name and platform is None:
        raise failure(f"--platform {name}: there is no such file, and no platforms/{name}/platform.toml")
    return platform


def _one_platform(records: list[Record], platform: Platform | None) -> list[Record]:
    """Records of one platform: a roofline is one machine's."""
    names = sorted({record.platform for record in records})
    if len(names) < 2:
        return records
    if platform is None or platform.name not in names:
        raise failure(f"records of several platforms ({', '.join(names)}): choose one by --platform")
    return [record for record in records if record.platform == platform.name]


def _nothing_usable(roofline: Roofline, read: int) -> str:
    if not read:
        return "there are no records"
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(roofline.dropped.items()))
    other = read - sum(roofline.dropped.values())
    parts = [reasons, f"{other} of tests that give no ceiling" if other else ""]
    return f"none of the {read} records can be used: {'; '.join(filter(None, parts))}"
