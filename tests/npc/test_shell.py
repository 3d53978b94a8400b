"""What surrounds the commands in a shell: completion and man pages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from npc.cli import entry_points
from npc.commands.completion import SHELLS
from npc.npb.cli import parser
from npc.npb.man_pages import write
from tests.lab.jube_job import NPC


def script(shell: str) -> str:
    return subprocess.run([NPC, "completion", shell], capture_output=True, text=True, check=True).stdout


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    (tmp_path / "npc.bash").write_text(script("bash"))

    def complete(*words: str) -> list[str]:
        program = (
            f"source {tmp_path / 'npc.bash'}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
            f'_npc_completion {NPC}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        )
        ended = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
        assert not ended.stderr, ended.stderr
        return ended.stdout.split()

    assert complete("npc", "comp") == ["compare"]
    assert complete("npc", "model", "") == ["fit", "predict", "sweep"]
    assert complete("npc", "night", "run", "--keep") == ["--keep-runs"], "which --help leaves out"
    assert complete("npc", "compare", "--fail") == ["--fail-on"]
    assert complete("npc", "compare", "--fail-on", "w") == ["worse"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_that_asks_npc(shell: str) -> None:
    text = script(shell)
    assert f"_NPC_COMPLETE={shell}_complete" in text
    told = {
        "bash": "complete -o nosort -F _npc_completion npc",
        "zsh": "#compdef npc",
        "fish": "complete --no-files --command npc",
    }
    assert told[shell] in text


def test_an_unknown_shell_is_a_usage_error() -> None:
    ended = subprocess.run([NPC, "completion", "tcsh"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "'tcsh' is not one of 'bash', 'zsh', 'fish'" in ended.stderr


def test_every_command_has_a_man_page_that_groff_takes(tmp_path: Path) -> None:
    pages = write(tmp_path)
    assert {page.name for page in pages} >= {
        "npc.1",
        "npb.1",
        *(f"npc-{name.replace(' ', '-')}.1" for name in entry_points() if name != "completion"),
    }
    texts = []
    for page in (tmp_path / "npc.1", tmp_path / "npc-compare.1", tmp_path / "npb.1"):
        groff = ["groff", "-ww", "-man", "-Tutf8", "-P-cbou", "-k", page]
        shown = subprocess.run(groff, capture_output=True, text=True, check=True)
        assert not shown.stderr, shown.stderr
        assert "NAME" in shown.stdout and "SYNOPSIS" in shown.stdout
        texts.append(shown.stdout)
    assert "run-to-run" in texts[1]
    assert "--modify_hostname OLD NEW" in texts[2]
    epilog = parser().epilog
    assert epilog and all(line.strip() in texts[2] for line in epilog.splitlines()), "as they are in --help"
