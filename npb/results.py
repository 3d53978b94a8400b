"""Results: the launch folder, the records, and what is shown on the terminal."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from npc.files import naming, no_link
from npc.npb.launch_result import BlamedSide, LaunchResult, read
from npc.npb.measure import StepOutcome
from npc.npb.output import Output, Stream
from npc.records.build import Origin, records_of
from npc.records.launch import RAW, Launch, LaunchLog, batch_job
from npc.records.record import OK, Record, save_csv, to_row, write_csv
from npc.records.run import RECORDS
from npc.records.series import RECEIVED, Series, identity, qualifiers
from npc.records.units import METRICS, between, format_quantity, format_size
from npc.statistics.medians import summarise
from npc.terminal import pass_on

#: A table is for reading; all pairs of a cluster are for a file.
MAX_ROWS: Final = 100
#: Of each file of a client's output that is shown in a table's place.
_SHOWN_CHARACTERS: Final = 100_000


class Results:
    """Takes outcomes as they come, to the disk at once, and shows them at the end."""

    def __init__(
        self, output: Path | None, tool: str, planned: int, seed: int | None, platform: str, benchmark: str
    ) -> None:
        """Make the folder, a temporary one without `output`. Raises OSError, FileExistsError."""
        self._temporary = output is None
        base = Path(os.environ.get("TMPDIR", "/tmp"))
        self.folder = output or base / f"npb-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(8)}"
        if self._temporary:
            self.folder.mkdir(mode=0o700)
        self._log = LaunchLog(self.folder, tool, planned, seed)
        self.expect = self._log.expect
        self._tool = tool
        self._origin = Origin(platform, benchmark, self.folder.resolve().name, batch_job())
        self.records: list[Record] = []
        self.launches: list[Launch] = []
        self._results: list[LaunchResult] = []
        self._contradicted: set[str] = set()

    def add(self, outcome: StepOutcome, hosts: Sequence[str], extra: Mapping[str, str]) -> int:
        """Write one outcome; returns its number."""
        number = len(self.launches)
        raw = f"{RAW}/{number:04d}.out"
        output = outcome.client.output if outcome.client else Output.of()
        with naming(self.folder / raw), (self.folder / raw).open("xb") as file:
            file.writelines(output.out.chunks())
        self._append(number, "err", output.err)
        self.add_server_output(number, outcome.server_output)
        result = outcome.result
        params = {**outcome.step.values, **outcome.placement, **extra}
        if result.received is not None:
            params[RECEIVED] = f"{result.received:.5f}"
        launch = Launch(
            id=number,
            argv=outcome.argv,
            started=outcome.started,
            seconds=round(outcome.seconds, 6),
            exit=outcome.client.exit if outcome.client else None,
            status=result.status,
            sample=outcome.step.sample,
            params=params,
            nodes=len(set(hosts)),
            hosts=tuple(hosts),
            raw=raw,
            **outcome.observed,
        )
        self._log.append(launch)
        self.launches.append(launch)
        self._results.append(result)
        if result.readings or result.status != OK:  # a tool without a parser has no records
            readings = result.readings or read(self._tool, outcome.argv, output)
            self.records += records_of(launch, readings, self._origin, raw)
        return number

    def add_server_output(self, number: int, output: Output) -> None:
        """What the server of launch `number` printed, in its time or at its end."""
        self._append(number, "server.out", output.out)
        self._append(number, "server.err", output.err)

    def _append(self, number: int, suffix: str, stream: Stream) -> None:
        if stream.size:
            path = self.folder / f"{RAW}/{number:04d}.{suffix}"
            with naming(path), open(path, "ab", opener=no_link) as file:
                file.writelines(stream.chunks())

    def close(self) -> str:
        """Validate and write the records, and close; the folder that stays, empty if none will."""
        self._log.close()
        if self.records:
            self._contradicted = self._find_contradicted()
            self.records = self._validated()
        if self._is_needless():
            return ""
        save_csv(self.records, self.folder / RECORDS)
        return str(self.folder)

    def remove_needless(self) -> None:
        """Remove a temporary folder that nobody will look into; nothing can be shown after that."""
        if self._is_needless():
            shutil.rmtree(self.folder)

    def _is_needless(self) -> bool:
        return self._temporary and all(blame is BlamedSide.NONE for blame in self.blames())

    def blames(self) -> list[BlamedSide]:
        """Of each launch the side that its failure is laid to; that of the client where it ended well, but
        all its numbers are contradicted."""
        return [
            BlamedSide.CLIENT
            if result.blame is BlamedSide.NONE and launch.raw in self._contradicted
            else result.blame
            for launch, result in zip(self.launches, self._results, strict=True)
        ]

    def _find_contradicted(self) -> set[str]:
        """The raw files of launches none of whose numbers goes with the others of its text, or with what npb
        saw arrive. What others computed meanwhile, and where it ran, is no failure of the tool."""
        from npc.validity import find_lies
        from npc.validity.rule import Circumstances
        from npc.validity.rules import rates

        wrong = {
            finding.place
            for finding in find_lies(self.records, Circumstances())
            if finding.rule.level == "invalid" and finding.rule.judge.__module__ == rates.__name__
        }
        held = {
            record.raw
            for place, record in enumerate(self.records)
            if record.ok and place not in wrong and record.metric not in ("energy", "power")
        }
        return {record.raw for record in self.records} - held

    def show(self, form: str) -> None:
        """Print everything on stdout: ``table``, ``csv``, ``json``, or ``raw``, the clients' own bytes."""
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        if form == "csv":
            write_csv(self.records, sys.stdout)
        elif form == "json":
            json.dump([to_row(record) for record in self.records], sys.stdout, indent=1)
            print()
        elif form == "raw":
            for launch in self.launches:
                for path, stream in zip(self._raw_files(launch), (sys.stdout, sys.stderr), strict=True):
                    if path.exists():
                        pass_on(path, stream)
        else:
            self._print_table()
        sys.stdout.flush()
        if form != "raw":
            self._count_unread()
        sys.stderr.flush()

    def _validated(self) -> list[Record]:
        """The records with what the rules of `npc.validity` say of them."""
        from npc.machine.platform import InvalidPlatform
        from npc.validity.run import judge_run, platform_of

        try:
            limits = platform_of(self.records)
        except InvalidPlatform:  # npc check and npc doctor say what is wrong with it
            limits = None
        return judge_run(self.folder, self.records, limits)

    def _print_table(self) -> None:
        from npc.columns import columns
        from npc.validity import INVALID

        rows: list[tuple[str, ...]] = [
            ("hosts", "case", "metric", "size", "varied", "n", "median", "95 % interval")
        ]
        series = _series(self.records)
        for records in series[:MAX_ROWS]:
            rows.append(_summary_row(records))
        if len(rows) > 1:
            print(*columns(rows, keep_empty=False), sep="\n")
        if len(series) > MAX_ROWS:
            print(f"… {len(series) - MAX_ROWS} more rows: see --output, --format csv")
        for line in dict.fromkeys(
            f"{_test_of(record)}: {record.status}"
            for record in self.records
            if record.status.startswith(INVALID)
        ):
            print(line)
        for launch in self.launches:
            if launch.status != OK:
                print(_failure_line(launch))
        self._print_unread()

    def _raw_files(self, launch: Launch) -> tuple[Path, Path]:
        """Where its client's stdout and stderr are; the second is only there if something was printed."""
        out = self.folder / launch.raw
        return out, out.with_suffix(".err")

    def _unread(self) -> list[Launch]:
        """Those whose clients ended well and whose numbers nobody read."""
        return [
            launch
            for launch, result in zip(self.launches, self._results, strict=True)
            if launch.exit is not None and result.status == OK and not result.readings
        ]

    def _print_unread(self) -> None:
        """What their clients printed, as far as it is for reading."""
        lines: list[str] = []
        for launch in self._unread():
            for path in filter(Path.exists, self._raw_files(launch)):
                with path.open(encoding="utf-8", errors="replace") as file:
                    lines += file.read(_SHOWN_CHARACTERS).splitlines()
            if len(lines) > MAX_ROWS:
                break
        for line in lines[:MAX_ROWS]:
            print(line)
        if len(lines) > MAX_ROWS:
            print("… more lines: see --format raw, --output")

    def _count_unread(self) -> None:
        if unread := len(self._unread()):
            good = sum(launch.status == OK for launch in self.launches)
            what = f"{good} of {len(self.launches)} launches ok; no number was read of {unread}"
            print(f"npb: {what} (--parser names a parser)", file=sys.stderr)


def _test_of(record: Record) -> str:
    own = [f"{name}={text}" for name, text in qualifiers(record.params).items()]
    return " ".join([record.case, record.metric, *own])


def _failure_line(launch: Launch) -> str:
    swept = [f"{key}={value}" for key, value in identity(launch.params).items()]
    return " ".join(["→".join(reversed(launch.hosts)), *swept, f"run {launch.sample}: {launch.status}"])


def _series(records: Iterable[Record]) -> list[list[Record]]:
    """Good records that repeat each other, in order of first appearance."""
    by_identity: dict[tuple[Series, tuple[str, ...]], list[Record]] = {}
    for record in records:
        if record.ok:
            by_identity.setdefault((Series.of(record), record.hosts), []).append(record)

    def order(records: Sequence[Record]) -> tuple[tuple[str, ...], str, str, int]:
        first = records[0]
        return first.hosts, first.case, first.metric, first.size or 0

    return sorted(by_identity.values(), key=order)


def _summary_row(records: Sequence[Record]) -> tuple[str, ...]:
    first = records[0]
    unit = METRICS[first.metric].unit
    summary = summarise([record.value for record in records if record.value is not None])
    shown = identity(first.params)
    return (
        "→".join(reversed(first.hosts)),
        first.case,
        first.metric,
        format_size(first.size),
        " ".join(f"{key}={value}" for key, value in sorted(shown.items())),
        str(summary.n),
        format_quantity(summary.median, unit),
        between(summary.low, summary.high, partial(format_quantity, unit=unit)),
    )
