"""Every file that NPC itself writes is made by one of the few functions that follow no link."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.paths import ROOT

ROOMS = ("npc", "parsers", "npb", "roofline", "cron", "report", "observe")
#: What opens a path for writing, and follows a link that waits there.
FOLLOWS = {"write_text", "write_bytes", "touch", "copyfile", "copy2", "copy", "copytree", "savefig"}
#: Places that may: what they write to has a name that nobody knew, or lies in a folder that was just made, or
#: in this environment or checkout, or in the kernel.
MAY = {
    "npc/catalogue/jube_yml.py": {"(home() / 'jube.yml').write_text(jube_yml(home()), encoding='utf-8')"},
    "npc/machine/fetch.py": {
        "stamp.write_text(f'{version}\\n', encoding='utf-8')",
        "(OSU_PORTS / Path(member.name).name).open('wb')",
        "archive.open('wb')",
    },
    "npc/machine/new_platform.py": {
        "(folder / 'platform.xml').write_text(xml, encoding='utf-8')",
        "(folder / PLATFORM_FILE).write_text(platform_toml(name, partition, node), encoding='utf-8')",
    },
    "npb/man_pages.py": {"(folder / 'npb.1').write_text(_npb(), encoding='utf-8')"},
    "roofline/page.py": {"path.write_text(page, encoding='utf-8', errors='backslashreplace')"},
    # click's, of the help
    "observe/commands.py": {"formatter.write_text(problem)", "formatter.write_text(purpose)"},
    "observe/study/knobs.py": {"(policy / f'scaling_{end}_freq').write_text(f'{khz}\\n')"},
    "observe/study/launches.py": {
        "(folder / f'{nodes}.jsonl').write_text('\\n'.join(text) + '\\n', encoding='utf-8')"
    },
    # into a folder that the run has just made
    "npc/jobs/node_jobs.py": {"shutil.copytree(path, target)"},
    "observe/study/running.py": {"shutil.copytree(source, to)"},
    "observe/mpi/build.py": {"Path(folder, name).write_text(text, encoding='utf-8')"},
}


def _writes(call: ast.Call) -> bool:
    """Whether a call opens a path for writing by a name that may be a link."""
    method = isinstance(call.func, ast.Attribute)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    text = ast.unparse(call)
    if name in FOLLOWS:
        return method and (
            name not in ("copy", "copy2", "copytree", "copyfile") or text.startswith("shutil.")
        )
    if name != "open" or "opener=no_link" in text:
        return False
    modes = [
        *call.args[0 if method else 1 :][:1],
        *(word.value for word in call.keywords if word.arg == "mode"),
    ]
    mode = modes[0].value if modes and isinstance(modes[0], ast.Constant) else "r"
    return isinstance(mode, str) and len(mode) <= 4 and bool(set(mode) & set("wa+"))


def _writers(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and _writes(node):
            yield ast.unparse(node)


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_is_written_by_a_name_that_may_be_a_link(room: str) -> None:
    found = {
        path.relative_to(ROOT).as_posix(): {*_writers(path.read_text(encoding="utf-8"))}
        for path in sorted((ROOT / room).rglob("*.py"))
    }
    found = {path: calls for path, calls in found.items() if calls}
    may = {
        path: calls
        for path, calls in MAY.items()
        if path.startswith(f"{room}/") and (ROOT / path).parent.exists()  # a folder can be taken away
    }
    assert found == may, (
        "write by npc.files (write_whole, append_lines, copy, open with no_link) or npc.own_folder"
    )


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("path.write_text('x')", True),
        ("path.touch()", True),
        ("path.open('wb')", True),
        ("open(path, 'a')", True),
        ("open(path, mode='w+')", True),
        ("path.open('xb')", False),
        ("open(path, 'ab', opener=no_link)", False),
        ("path.open()", False),
        ("shutil.copyfile(a, b)", True),
        ("array.copy()", False),
    ],
)
def test_what_writes_is_seen(line: str, writes: bool) -> None:
    assert bool([*_writers(line)]) == writes
