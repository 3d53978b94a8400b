"""What the numbers of IOR and mdtest really mean, in whole texts and in those that lost or gained lines."""

from __future__ import annotations

import re

import pytest

from npc import parsers
from npc.records.record import OK
from tests.captured import text_of

LATE = "slurmstepd: error: *** JOB 17 ON n1 CANCELLED AT 2026-01-05T10:00:00 DUE TO TIME LIMIT ***\n"


def statuses(tool: str, text: str) -> set[str]:
    return {reading.status for reading in parsers.parse(tool, text)}


def doubled(text: str) -> str:
    """What two programs wrote that printed every line at the same time."""
    return "".join(line + line for line in text.splitlines(keepends=True))


class TestMdtest:
    def rates(self, text: str, **params: str) -> dict[str, float | None]:
        """Case → rate of the readings with these params and no other statistic."""
        return {
            reading.case: reading.value
            for reading in parsers.parse("mdtest", text)
            if dict(reading.params) == params and reading.status == OK
        }

    @pytest.mark.parametrize("name", ["v3.4.0_rank_and_iteration.txt", "v4.1.0_rank_statistics.txt"])
    def test_beside_the_ranks_statistics_those_of_the_iterations_count(self, name: str) -> None:
        text = text_of("mdtest", name)
        params = {"items": "300", "directory": "unique", "tasks": "2", "processes": "2"}
        means = self.rates(text, **params)
        greatest = self.rates(text, **params, statistic="max")
        for row in re.findall(r"(?m)^ +((?:File|Directory) \w+) +:? +(.+)$", text):
            cells = [float(cell) for cell in row[1].split()]
            heading_ends_in_mean = len(cells) == 7 and name.startswith("v3.4")
            assert means[row[0].lower()] == cells[-1 if heading_ends_in_mean else -2]
            assert greatest[row[0].lower()] == cells[-3 if heading_ends_in_mean else -4]

    def test_rates_count_and_the_times_below_them_do_not(self) -> None:
        readings = parsers.parse("mdtest", text_of("mdtest", "v4.1.0_rates_and_times.txt"))
        assert len(readings) == 10 * 3
        assert min(reading.value or 0 for reading in readings) > 1
        assert statuses("mdtest", text_of("mdtest", "fail_times_only.txt")) == {
            "failed: only times were printed (-Z); rates are read"
        }

    def test_each_number_of_tasks_has_its_own_table(self) -> None:
        text = text_of("mdtest", "v3.3.0_64_tasks.txt")
        head, table = text.split("64 tasks, ")
        both = (
            head + "32 tasks, 65536 files/directories\n" + table.partition("\n")[2] + "\n64 tasks, " + table
        )
        stats = [reading for reading in parsers.parse("mdtest", both) if reading.case == "file stat"]
        readings = [reading for reading in stats if "statistic" not in reading.params]
        assert [(r.params["tasks"], r.params.get("processes")) for r in readings] == [
            ("32", None),
            ("64", "16"),
        ]

    def test_two_runs_in_one_text_are_two_runs(self) -> None:
        first, second = (
            text_of("mdtest", f"v{name}.txt") for name in ("3.3.0_64_tasks", "4.0.0_create_only")
        )
        apart = [*parsers.parse("mdtest", first), *parsers.parse("mdtest", second)]
        assert parsers.parse("mdtest", first + second) == apart

    def test_a_second_table_whose_run_is_not_named_is_not_believed(self) -> None:
        text = text_of("mdtest", "v3.3.0_64_tasks.txt")
        assert statuses("mdtest", text + "\nSUMMARY" + text.split("SUMMARY")[1]) == {
            "invalid: of several tables nobody knows which belongs to the lines above"
        }

    def test_programs_that_ran_at_once(self) -> None:
        assert statuses("mdtest", doubled(text_of("mdtest", "v4.1.0_rates_and_times.txt"))) == {
            "failed: no rate was printed",
            "invalid: several programs wrote this table",
        }

    def test_a_mean_beyond_its_extremes(self) -> None:
        text = text_of("mdtest", "v3.3.0_64_tasks.txt")
        assert statuses("mdtest", text.replace("9009.705", "90097.050")) == {
            OK,
            "invalid: the mean 90097.050 is not between 8797.425 and 9250.393",
        }

    def test_an_excerpt_names_what_it_lacks(self) -> None:
        text = text_of("mdtest", "v3.3.0_64_tasks.txt")
        for part in ("SUMMARY", "   Directory stat"):
            assert statuses("mdtest", part + text.partition(part)[2]) == {
                "failed: looks like mdtest, but its heading is missing:"
                " tasks and bytes of a file cannot be known"
            }

    def test_a_run_at_its_time_limit(self) -> None:
        head = text_of("mdtest", "v3.3.0_64_tasks.txt").partition("SUMMARY")[0]
        assert statuses("mdtest", head + LATE) == {"failed: Slurm cancelled it: time limit"}


class TestIor:
    text = text_of("ior", "v4.1.0_collective_v.txt")
    script = text_of("ior", "v4.1.0_script.txt")

    def test_each_test_of_a_script_has_its_own_row_and_options(self) -> None:
        assert statuses("ior", self.script) == {OK}
        before, mark, behind = self.script.partition("TestID              : 1")
        behind = behind.replace("type                : independent", "type                : collective")
        readings = parsers.parse("ior", before + mark + behind)
        assert {(r.size, r.params.get("type")) for r in readings} == {(65536, None), (131072, "collective")}
        assert not any("direct" in reading.params for reading in readings)

    @pytest.mark.parametrize(
        ("line", "option"),
        [
            ("\taccess             = single-shared-file, collective\n", ("type", "collective")),
            ("\tordering in a file = random offsets\n", ("ordering", "random")),
        ],
    )
    def test_options_as_ior_3_0_prints_them(self, line: str, option: tuple[str, str]) -> None:
        text = text_of("ior", "v3.3.0_process_4k.txt")
        readings = parsers.parse("ior", text.replace("\nOptions: \n", f"\nSummary:\n{line}"))
        assert all(option in reading.params.items() for reading in readings)

    def test_programs_that_ran_at_once(self) -> None:
        assert statuses("ior", doubled(self.text)) == {
            "failed: no summary was printed",
            "invalid: several programs wrote this table",
        }

    def test_a_second_summary_is_a_table_of_its_own_with_options_that_nobody_knows(self) -> None:
        table = "\nOperation  " + self.script.partition("\nOperation  ")[2]
        readings = parsers.parse("ior", text_of("ior", "v3.3.0_process_4k.txt") + table)
        assert {reading.status for reading in readings} == {OK}
        assert len(readings) == 4 + 24
        assert not any("direct" in reading.params for reading in readings)

    def test_a_summary_without_its_run_is_read_without_what_it_does_not_say(self) -> None:
        whole = parsers.parse("ior", self.script)
        excerpt = parsers.parse("ior", self.script[self.script.index("Operation  ") :])
        assert [(r.case, r.value, r.size, r.params) for r in excerpt] == [
            (r.case, r.value, r.size, r.params) for r in whole
        ]

    @pytest.mark.parametrize("start", ["access    bw", "write     563.86   ", "write         563.86 "])
    def test_an_excerpt_names_what_it_lacks(self, start: str) -> None:
        text = self.text[self.text.index(start) :]
        if not start.endswith(" "):
            text = text.partition("Summary")[0]
        assert statuses("ior", re.sub(r"Operation [^\n]*\n", "", text)) == {
            "failed: looks like IOR, but its heading is missing: size and units cannot be known"
        }

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ("Max Read:  852.50", "Max Read:  952.50", "read's maximum is 852.5 MiB/s, but: Max Read 952.50"),
            (
                "read      852.50 ",
                "read      842.50 ",
                "the maximum is 852.5 MiB/s, that of the repetitions 842.5 MiB/s",
            ),
            (
                "read      38.97  ",
                "read      39.97  ",
                "the minimum is 38.97 MiB/s, that of the repetitions 39.97 MiB/s",
            ),
            (
                "read      788.63 ",
                "read      688.63 ",
                "the mean is 560.03 MiB/s, that of the repetitions 526.7 MiB/s",
            ),
            (
                "560.03     369.37",
                "860.03     369.37",
                "the mean 860.03 MiB/s is not between 38.97 and 852.5",
            ),
            (
                "560.03     369.37",
                "530.03     369.37",
                "8960.49 operations a second of 0.0625 MiB are not 530.03 MiB/s",
            ),
        ],
    )
    def test_a_row_that_the_rest_of_the_text_contradicts(self, old: str, new: str, reason: str) -> None:
        assert self.text.count(old) == 1
        assert statuses("ior", self.text) == {OK}
        assert statuses("ior", self.text.replace(old, new)) == {OK, f"invalid: {reason}"}

    def test_a_row_that_was_cut(self) -> None:
        cut = self.text[: self.text.rindex(" MPIIO")] + "\n"
        readings = [reading for reading in parsers.parse("ior", cut) if reading.case == "read"]
        assert [reading.status for reading in readings] == ["failed: its row of the summary is not whole"]

    def test_a_summary_of_which_nothing_is_whole(self) -> None:
        narrow = "".join(line[:150].rstrip() + "\n" for line in self.text.splitlines())
        assert statuses("ior", narrow) == {"failed: neither heading nor rows of the summary are whole"}

    def test_the_summary_of_ior_2_is_refused_by_name(self) -> None:
        text = (
            "IOR-2.10.3: MPI Coordinated Test of Parallel I/O\n\n"
            "Operation  Max (MiB)  Min (MiB)  Mean (MiB)   Std Dev  Max (OPs)  Min (OPs)\n"
            "---------  ---------  ---------  ----------   -------  ---------  ---------\n"
            "write         301.44     298.10      299.77      1.67     150.72     149.05\n"
        )
        assert statuses("ior", text) == {"failed: the summary of IOR 2 is not read"}

    def test_a_run_at_its_time_limit(self) -> None:
        head = self.text.partition("Max Write")[0]
        assert statuses("ior", head + LATE) == {"failed: Slurm cancelled it: time limit"}
