"""``pairs.json``: what npb says of many pairs is read back typed, and what is none is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npc.cron.matrix import matrix_of
from npc.files import InvalidFile
from npc.npb.cluster import PairSeries, save
from npc.npb.localise import localise_pairs
from npc.records.pair_verdicts import PAIRS, Localisation, read_pairs
from tests.made.pairs import Cluster, slow_node

WHICH = PairSeries("tcp_bw", "bandwidth", 65536, (("side", "recv"),))


def judged() -> Localisation:
    return localise_pairs(Cluster(8, slow_node(2, 0.5)).rounds())


def test_what_npb_says_is_read_back(tmp_path: Path) -> None:
    verdict = judged()
    save({WHICH: verdict}, tmp_path)
    (entry,) = read_pairs(tmp_path / PAIRS)
    assert (entry.series, entry.case, entry.size) == (str(WHICH), "tcp_bw", 65536)
    assert entry.qualifiers == (("side", "recv"),)
    assert entry.verdict == verdict, "the types of what is written and of what is read are the same"
    (suspect,) = entry.verdict.suspects
    (named,) = verdict.suspects
    assert (suspect.whom, suspect.slowdown, suspect.closer) == (named.whom, named.slowdown, named.closer)
    assert suspect.measurements[0].value == named.measurements[0].value
    assert (entry.verdict.healthy, entry.verdict.typical) == (verdict.healthy, verdict.typical)
    assert [slow.whom for slow in matrix_of(tmp_path / PAIRS, ("n1",)).slow] == [named.whom]


@pytest.mark.parametrize("key", ["closer", "chance", "kind"])
def test_a_suspect_without_a_key_is_refused_with_file_and_key(key: str, tmp_path: Path) -> None:
    """The page looked for it in a dict, and ended with a traceback."""
    save({WHICH: judged()}, tmp_path)
    path = tmp_path / PAIRS
    entries = json.loads(path.read_text())
    del entries[0]["verdict"]["suspects"][0][key]
    path.write_text(json.dumps(entries))
    with pytest.raises(InvalidFile) as refused:
        read_pairs(path)
    assert str(refused.value) == (
        f"{path}: Object missing required field `{key}` - at `$[0].verdict.suspects[0]`"
    )
    assert matrix_of(path, ("n1",)).problem == str(refused.value)
