"""What an environment.json says in words, and which of several machines is not like the others."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from npc.machine.environment import collect_environment
from npc.machine.facts import odd_ones, of_machine, read_environments


def test_a_node_with_less_memory_is_the_odd_one(tmp_path: Path) -> None:
    here = json.loads(json.dumps(collect_environment(["test"], tools=[])))
    nodes = {f"n{number}": copy.deepcopy(here) for number in range(4)}
    nodes["n2"]["memory"]["total_bytes"] = 2e9
    for name, seen in nodes.items():
        seen["host"]["name"] = name
        (tmp_path / f"{name}.json").write_text(json.dumps(seen))
    # what it was before
    (tmp_path / "n2-old.json").write_text(
        json.dumps({**nodes["n1"], "host": {"name": "n2"}, "time": "2020-01-01"})
    )
    (tmp_path / "half.json").write_text('{"host": {"na')
    read = read_environments(sorted(tmp_path.glob("*.json")))
    usual = of_machine(here)["memory"]
    assert odd_ones(read) == [f"n2: memory 1.86 GiB; 3 others have {usual}"]
    assert odd_ones({name: read[name] for name in ("n1", "n2")}) == [], "of two nobody is the odd one"
