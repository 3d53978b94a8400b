"""What STREAM, BabelStream, HPL and HPCG say in texts that other builds, or people, shaped."""

from __future__ import annotations

import re

from npc import parsers
from npc.records.record import OK
from tests.captured import text_of


def statuses(tool: str, text: str) -> set[str]:
    return {reading.status for reading in parsers.parse(tool, text)}


class TestStream:
    text = text_of("stream-formats", "stream_5.9_threads.txt")

    def test_each_table_has_the_threads_above_it(self) -> None:
        readings = parsers.parse("stream", self.text)
        assert [(r.params["threads"], r.value, r.status) for r in readings if r.case == "copy"] == [
            ("1", 6030.1508e6, OK),
            ("2", 11940.2985e6, OK),
            ("4", 15384.6154e6, OK),
        ]
        assert {(r.size, r.params["array_size"]) for r in readings} == {(720_000_000, "30000000")}

    def test_a_table_that_lost_its_number_of_threads_has_none(self) -> None:
        text = self.text.replace("Number of Threads requested = 2\n", "")
        assert [r.params.get("threads") for r in parsers.parse("stream", text) if r.case == "add"] == [
            "1",
            None,
            "4",
        ]

    def test_a_number_of_threads_whose_table_was_cut_is_not_that_of_the_table_above(self) -> None:
        cut = self.text[: self.text.index("Number of Threads requested = 4\n") + 32]
        readings = parsers.parse("stream", cut)
        assert [r.params["threads"] for r in readings if r.case == "copy"] == ["1", "2"]

    def test_a_table_is_as_valid_as_its_own_arrays(self) -> None:
        first, _, rest = self.text.partition("Solution Validates\n")
        readings = parsers.parse("stream", f"{first}Failed Validation on array a[]\n{rest}")
        failures = {reading.params["threads"] for reading in readings if reading.status != OK}
        assert failures == {"1"}

    def test_blanks_at_line_starts_and_ends_do_not_matter(self) -> None:
        text = text_of("stream", "stream_t2.txt")
        ticks = "\n   (= 16712 clock ticks)\n"
        assert re.search(r"\n +\(= [0-9]+ clock ticks\)\n", text)
        few = re.sub(r"\n +\(= [0-9]+ clock ticks\)\n", "\n(= 12 clock ticks)\n", text)
        assert statuses("stream", re.sub(r"\n +\(= [0-9]+ clock ticks\)\n", ticks, text)) == {OK}
        assert statuses("stream", few) == {
            "invalid: a test takes 12 clock ticks, STREAM asks for at least 20"
        }
