"""Host lists: what is folded is the same names, for Slurm too, and nobody has to read a thousand names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.hostlist import expand, fold, host_text
from tests.lab.cluster import Cluster
from tests.paths import ROOT

LISTS = {
    "n[01-03,7],gpu1": ["n01", "n02", "n03", "n7", "gpu1"],
    "n[0001-1000]": [f"n{number:04}" for number in range(1, 1001)],
    "n[8-11,099-100,1]": ["n8", "n9", "n10", "n11", "n099", "n100", "n1"],
    "r[1-2]n[1-40]": [f"r{rack}n{node}" for rack in (1, 2) for node in range(1, 41)],
    "r1n[1-2],r2n1": ["r1n1", "r1n2", "r2n1"],
    "node-[01-02]-[001-002]": ["node-01-001", "node-01-002", "node-02-001", "node-02-002"],
    "n[1,1],login": ["n1", "n1", "login"],
}
#: Of names that do not end in a number, which Slurm's own commands do not read back.
OTHERS = {
    "n[1-2].hpc2.example.org": ["n1.hpc2.example.org", "n2.hpc2.example.org"],
    "n[1-2]-ib0": ["n1-ib0", "n2-ib0"],
    "a,a,b": ["a", "a", "b"],
    "": [],
}


@pytest.mark.parametrize(("folded", "names"), [*LISTS.items(), *OTHERS.items()])
def test_names_that_differ_in_a_number_are_a_range(folded: str, names: list[str]) -> None:
    assert fold(names) == folded
    assert expand(folded) == names


NAMES = st.builds(
    "{0}{1:0{2}d}{3}".format,
    st.sampled_from(("n", "", "r1n", "r02-", "a.")),
    st.integers(0, 120),
    st.integers(1, 3),
    st.sampled_from(("", "", "b", "-ib0", "x1", ".hpc2.example.org")),
)


@given(st.lists(NAMES, max_size=20))
def test_what_is_folded_is_the_same_names_in_their_order(names: list[str]) -> None:
    assert expand(fold(names)) == names


@pytest.mark.slow
@pytest.mark.slurm
def test_slurm_reads_the_same_names() -> None:
    with Cluster(nodes=1) as cluster:
        for folded, names in LISTS.items():
            shown = cluster.run("head", ["scontrol", "show", "hostnames", folded], check=True).stdout.split()
            assert shown == names
            own = cluster.run("head", ["scontrol", "show", "hostlist", ",".join(names)], check=True).stdout
            assert expand(own.strip()) == names


def test_too_many_names_are_refused_before_they_are_made() -> None:
    with pytest.raises(ValueError, match="more than"):
        expand("r[1-9999]n[1-9999]")


def test_people_read_few_names_as_they_are_and_many_folded() -> None:
    assert host_text(["n2", "n1", "n2"]) == "n2, n1", "the server first"
    assert host_text([f"n{number}" for number in (3, 1, 10, 2, 7)]) == "n[1-3,7,10]"
    assert host_text(f"n{number:04}" for number in range(1000)) == "n[0000-0999]"
    scattered = [f"rack{number % 97:02}-node{number:05}" for number in range(1, 20000, 7)]
    text = host_text(scattered)
    assert len(text) < 200
    shown, left = re.fullmatch(r"(.+) and (\d+) more", text).groups()  # type: ignore[union-attr]
    assert len(expand(shown)) + int(left) == len(scattered)


ROOMS = ("cron", "npb", "npc", "observe", "parsers", "report", "roofline")
#: Variables and fields that are hosts' names; what is asked for a list of them.
HOSTS = {"hosts", "nodes", "hosts_of", "absent", "unmeasured"}

#: What a module has that does so, perhaps: most need not be parsed.
MAYBE = re.compile(rf"(?:join|several)\([^\n]*\b(?:{'|'.join(sorted(HOSTS))})\b")


def lists_for_people(path: Path) -> list[str]:
    """Where a module writes hosts out with a comma and a blank, or cuts them: what only people read."""
    places: list[str] = []
    text = path.read_text(encoding="utf-8")
    if not MAYBE.search(text):
        return places
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        function = call.func
        joins = (
            isinstance(function, ast.Attribute)
            and function.attr == "join"
            and isinstance(function.value, ast.Constant)
            and str(function.value.value) in (", ", "; ")
        )
        if joins or (isinstance(function, ast.Name) and function.id == "several"):
            first = call.args[0]
            while isinstance(first, ast.Call | ast.Subscript) and not isinstance(first, ast.Name):
                if isinstance(first, ast.Subscript):
                    first = first.value
                elif getattr(first.func, "id", "") in HOSTS:
                    first = first.func
                elif first.args:
                    first = first.args[-1]
                else:
                    first = first.func
            name = getattr(first, "attr", getattr(first, "id", ""))
            if name in HOSTS:
                places.append(f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}")
    return places


def test_no_list_of_hosts_for_people_is_made_elsewhere() -> None:
    """`host_text` does it: a thousand names are one line."""
    sources = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    assert not [place for path in sources for place in lists_for_people(path)]
