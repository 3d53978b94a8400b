"""``python -m npc.npb.man_pages FOLDER``: man pages for npc, each of its commands, and npb (``make man``).

click-man and argparse-manpage write them from what ``--help`` says; they are installed with the tests'
packages.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from npc import __version__
from npc.cli import Commands, main
from npc.commands.rare_options import show_all
from npc.npb import cli
from npc.terminal import guard


def write(folder: Path) -> list[Path]:
    """Write ``npc.1``, ``npc-COMMAND.1`` of every command and ``npb.1`` into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_npc(folder)
    (folder / "npb.1").write_text(_npb(), encoding="utf-8")
    return sorted(folder.glob("np[bc]*.1"))


def _write_npc(folder: Path) -> None:
    pages = importlib.import_module("click_man.core")
    # a page has all options, those too that --help leaves out
    above = click.Context(click.Command(""), info_name="")
    show_all(above)
    group = _with_commands(main, click.Context(main, info_name="npc", parent=above))
    group.short_help = "characterise a machine's network, memory and compute, and watch it"
    pages.write_man_pages("npc", group, parent_ctx=above, version=__version__, target_dir=str(folder))


def _with_commands(group: click.Group, context: click.Context) -> click.Group:
    """The group with the commands that it would load by name, since click-man looks for them in the group."""
    commands: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, Commands):
            command = _with_commands(command, click.Context(command, info_name=name, parent=context))
        if command is not None:
            commands[name] = command
    return click.Group(
        group.name, commands, help=group.help, short_help=group.short_help, params=list(group.params)
    )


def _npb() -> str:
    parser = cli.parser()
    epilog, parser.epilog = parser.epilog, None  # which would become one paragraph
    page = importlib.import_module("argparse_manpage.manpage").Manpage(parser)
    page.description = parser.description
    page.source, page.manual = f"npb {__version__}", "npb Manual"
    lines = (epilog or "").replace("\\", r"\e").replace("-", r"\-")
    page.add_section("Examples and exit codes", "=", f".nf\n{lines}.fi")
    return str(page)


if __name__ == "__main__":
    guard()
    if len(sys.argv) != 2:
        sys.exit("usage: python -m npc.npb.man_pages FOLDER")
    folder = Path(sys.argv[1])
    print(f"{len(write(folder))} pages: man -l {folder / 'npc.1'}")
