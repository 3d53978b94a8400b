"""``npc completion SHELL``: the script by which a shell completes npc's commands, options and values."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command(hidden=True, short_help="Completion of commands in bash, zsh and fish.")
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash:  npc completion bash > ~/.local/share/bash-completion/completions/npc
    zsh:   npc completion zsh > a folder of $fpath/_npc
    fish:  npc completion fish > ~/.config/fish/completions/npc.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None  # click knows all of SHELLS
    # click's own check of bash runs bash, and fails where the script is made for another machine's
    script = made(ctx.find_root().command, {}, "npc", "_NPC_COMPLETE")
    click.echo(script.source_template % script.source_vars())
