"""``npc characterise``: the main job."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from cron.commands import chosen, of_benchmark, of_platform, of_settings, of_tags
from npc.parameters import Duration, PathParameter


@click.command()
@of_platform
@of_tags
@of_settings
@of_benchmark
@click.option("--output", type=PathParameter(file_okay=False), help="Where runs go (default: runs/).")
@click.option("--limit", type=Duration(), help="Do not wait longer for jobs: 90s, 10m, 2h (default: never).")
@click.option("--json", "as_json", is_flag=True, help="Print roofline.json instead of the tables.")
def characterise(
    platform: str,
    tags: tuple[str, ...],
    given: tuple[str, ...],
    benchmark: str | None,
    output: Path | None,
    limit: float | None,
    as_json: bool,
) -> None:
    """Characterise a machine: run jube.yml, wait, collect, show the ceilings, draw the roofline.

    Exit codes: 0 all was measured (or was unavailable here), 1 nothing usable, 2 usage, 5 jobs have not
    ended by the limit, 6 some of it failed, 130 and 143 stopped (what was measured before is collected).
    """
    from cron.characterise import LOCK, Characterisation, alone_on, measure_and_draw
    from npc.jobs.checkout import paths_from_here
    from npc.jobs.wait import Patience
    from npc.locks import Held, only_one
    from npc.machine.tools import search_path

    home, folder, file, variables = chosen(platform, tags, given, benchmark)
    outpath = (output or home / "runs").resolve()
    env = paths_from_here({**os.environ, **variables})
    env["PATH"] = search_path()
    what = Characterisation(
        home, file or home / "jube.yml", folder, tags, outpath, env, Patience(limit_s=limit)
    )
    try:
        outpath.mkdir(parents=True, exist_ok=True)
        with only_one(outpath / LOCK, limit or 0.0), alone_on(folder, outpath, limit or 0.0):
            code = measure_and_draw(what, as_json)
    except Held as who:
        raise click.ClickException(
            f"another characterisation is running in {outpath} ({who}): the two would measure each other"
        ) from None
    except OSError as error:
        raise click.ClickException(f"cannot write into {outpath}: {error.strerror}") from None
    sys.exit(code)
