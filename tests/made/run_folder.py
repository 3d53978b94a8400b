"""Folders of runs for tests of the report: records of every kind, with launches and raw files beside them."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from npc.machine.environment import collect_environment
from npc.records.launch import LAUNCHES, RAW, Launch, LaunchLog
from npc.records.record import Record, replace, save_csv
from npc.records.units import METRICS
from tests.made.fleets import Fleet, fleet_history, write_csv
from tests.made.measured import AROUND, level, peak, records

SIZES = tuple(2**power for power in range(21))
#: What no page may take for markup, a template, a link or a style.
HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}</script></style><svg/onload=alert(2)>%41#?;"


def sweep(case: str, mpi: str, scale: float = 1.0) -> Iterator[Record]:
    """OSU's bandwidth or latency of a link of 5 GB/s and 1.5 µs, with a protocol switch behind 8 KiB."""
    for size in SIZES:
        time = (1.5e-6 if size <= 8192 else 4e-6) + size / 5e9
        value, metric = (size / time, "bandwidth") if case.endswith("bw") else (time, "latency")
        yield from records(
            "osu", case, value * scale, metric=metric, size=size, nodes=2, params={"mpi": mpi, "ranks": "2"}
        )


def everything() -> list[Record]:
    """Usable records for every section, and one of each way to fail."""
    good = [
        *peak("peakflops_avx", 380e9),
        *peak("peakflops_sp_avx", 760e9),
        *level("L1", "load_avx", 1600e9, size=400_000),
        *level("L2", "load_avx", 800e9),
        *level("L3", "load_avx", 400e9),
        *level("MEM", "load_avx", 85e9),
        *records("stream", "triad", 78e9),
        *records("qperf", "tcp_bw", 1.1e9, nodes=2, size=65536),
        *records("qperf", "tcp_lat", 2e-5, metric="latency", nodes=2, size=1),
        *records("memory", "loaded", 9e-8, metric="latency", params={"delay_ns": "idle"}),
        *records("memory", "loaded", 3e-7, metric="latency", params={"delay_ns": "0"}),
        *records("memory", "loaded", 80e9, params={"delay_ns": "0"}),
        *records("noise", "detour", 0.004, metric="noise", params={"core": "3", "ran": "sshd 0.01 s"}),
        *sweep("osu_bw", "openmpi"),
        *sweep("osu_bw", "mpich", 0.8),
        *sweep("osu_latency", "openmpi"),
        *sweep("osu_latency", "mpich", 1.3),
        *sweep("osu_allreduce_lat", "openmpi", 4.0),
    ]
    first = good[0]
    bad = [
        replace(first, benchmark="iperf3", case="tcp", value=None, status="failed: connection refused"),
        replace(first, benchmark="iperf3", case="tcp", value=1e9, status="invalid: 1 CPU for both sides"),
        replace(first, benchmark="nuttcp", case="", value=None, status="timeout: it still ran after 120 s"),
        replace(
            first, benchmark="perftest", case="ib_write_bw", value=None, status="unavailable: no RDMA device"
        ),
    ]
    return [*good, *bad]


def make_run(folder: Path, found: list[Record] | None = None) -> Path:
    """A folder of launches with ``records.csv``, raw files and ``environment.json``; gives it back."""
    found = everything() if found is None else found
    kept = []
    log = LaunchLog(folder, "qperf", len(found))
    for number, record in enumerate(found):
        raw = f"{RAW}/{number:04d}.out"
        (folder / raw).write_text(f"{record.case} {record.value} {record.unit}\n")
        kept.append(replace(record, raw=raw))
        log.append(
            Launch(
                id=number, argv=(record.benchmark, record.case), started=record.time, seconds=1.5, exit=0,
                case=record.case, sample=record.sample, nodes=record.nodes, hosts=record.hosts, raw=raw,
                status=record.status if record.value is None else "ok",
            )
        )  # fmt: skip
    log.close()
    assert (folder / LAUNCHES).exists()
    save_csv(kept, folder / "records.csv")
    (folder / "environment.json").write_text(_environment())
    return folder


@functools.cache
def _environment() -> str:
    """This machine's ``environment.json``, asked for once."""
    return json.dumps(collect_environment())


def make_pairs(folder: Path, nodes: int = 8, slow: int = 3) -> Path:
    """What npb leaves of all pairs of `nodes`, half of them in one module of a system and half in another, of
    which one is 20 % slow and one pair failed."""
    from npc.npb.cluster import PairSeries, save
    from npc.npb.localise import localise_pairs
    from npc.records.pair_verdicts import PairResult

    chance, results, found = random.Random(1), [], []
    for a in range(nodes):
        for b in range(a + 1, nodes):
            value = 1e9 * math.exp(0.01 * chance.gauss(0, 1)) * (0.8 if slow in (a, b) else 1.0)
            failed = (a, b) == (0, 1)
            status = "failed: no route to host" if failed else "ok"
            results.append(PairResult(f"n{a}", f"n{b}", None if failed else value, status, 0))
            found.append(
                Record(
                    time="2026-11-20T08:00:00+00:00", platform="fuchs", benchmark="qperf", case="tcp_bw",
                    metric="bandwidth", value=None if failed else value, unit=METRICS["bandwidth"].unit,
                    size=65536, nodes=2, hosts=(f"n{a}", f"n{b}"), status=status,
                )
            )  # fmt: skip
    make_run(folder, found)
    parts = {"cluster": f"n[0-{nodes // 2 - 1}]", "booster": f"n[{nodes // 2}-{nodes - 1}]"}
    environment = json.loads(_environment())
    for number, (partition, hosts) in enumerate(parts.items()):
        environment["variables"][f"SLURM_JOB_PARTITION_HET_GROUP_{number}"] = partition
        environment["variables"][f"SLURM_JOB_NODELIST_HET_GROUP_{number}"] = hosts
    (folder / "environment.json").write_text(json.dumps(environment))
    verdict = localise_pairs(results)
    save({PairSeries("tcp_bw", "bandwidth", 65536, ()): verdict}, folder)
    return folder


#: Nights of `make_history` whose raw files are there.
KEPT = 5


def make_history(folder: Path, nights: int = 40, platform: str = "fuchs") -> Path:
    """A judged history of three series, of which one is 15 % slower since its 30th night, and one is measured
    on two pairs of nodes every night.

    Beside it the raw files of the last `KEPT` nights, but for those of the last night's second launches."""
    from npc.cron.judge import judge_last_night
    from npc.cron.publish import write_verdict
    from npc.cron.series import panel
    from npc.records.history import History, of_night
    from npc.records.journal import Journal

    chance, other_chance = random.Random(2), random.Random(3)
    begun = datetime(2026, 9, 1, 2, 30, tzinfo=timezone.utc)
    history, journal = History(folder / platform), Journal(folder / platform)
    for night in range(nights):
        moment = begun + timedelta(days=night)
        name = moment.strftime("%Y%m%dT%H%M%SZ")
        runs = folder.parent / "nights" / name
        found = []
        pair, other_pair = (tuple(f"n{(night + n) % 4}" for n in two) for two in ((0, 1), (2, 3)))
        for case, metric, value, hosts in (
            ("tcp_bw", "bandwidth", 1.1e9, pair),
            ("udp_bw", "bandwidth", 1.0e9 * (0.85 if night >= 30 else 1.0), pair),
            ("tcp_lat", "latency", 2e-5, pair),
        ):
            for record in records("qperf", case, value, metric=metric, spread=AROUND[:3], nodes=2):
                noise = math.exp(0.01 * chance.gauss(0, 1))
                found.append(
                    dataclasses.replace(
                        record,
                        time=(moment + timedelta(minutes=record.sample)).isoformat(),
                        platform=platform,
                        value=value * noise,
                        hosts=hosts,
                        raw=f"first/{case}/{record.sample}.out",
                    )
                )
        found += [
            dataclasses.replace(
                each, hosts=other_pair, value=2e-5 * math.exp(0.01 * other_chance.gauss(0, 1))
            )
            for each in found[-3:]
        ]
        if night == 20:
            found[0] = replace(found[0], value=None, status="failed: connection refused")
            found[1:3] = [replace(each, value=None, status=found[0].status) for each in found[1:3]]
        history.append(of_night(found, name))
        if night:
            journal.note(name, "begun", folder=str(runs), words=[])
        for record in found if night >= nights - KEPT else ():
            path = runs / record.raw
            path.parent.mkdir(parents=True, exist_ok=True)
            if night < nights - 1 or record.sample != 1:
                path.write_text(f"{record.value}\n")
    judged = judge_last_night(panel(history.points()), platform)
    write_verdict(folder / platform, judged, ["the matrix of pairs was not measured"])
    history.close()
    return folder


def make_fleet(folder: Path, nights: int = 8) -> Path:
    """A judged history of 16 nodes with two GPUs each: one of them was always 8 % slower than the others, and
    of a node that is known since the last three nights one is 12 % slower."""
    from npc.cron.judge import judge_last_night
    from npc.cron.publish import write_verdict
    from npc.cron.series import panel
    from npc.records.history import History

    history = fleet_history(Fleet(nodes=16, devices=2, sigma=0.002, nights=nights), "healthy", seed=1)
    runs = sorted({row.run for row in history.rows})
    rows = []
    for row in history.rows:
        (host,), device = row.hosts, row.key.device
        slowdown = {("n0003", "gpu 1"): 0.08, ("n0005", "gpu 0"): 0.12}
        left = 1 - slowdown.get((host, device), 0.0)
        if host != "n0005" or row.run in runs[-3:]:
            rows.append(row._replace(value=(row.value or 0.0) * left))
    (folder / "made").mkdir(parents=True)
    write_csv(rows, folder / "made/2026-11.fleet.csv")
    past = History(folder / "made")
    write_verdict(folder / "made", judge_last_night(panel(past.points()), "made"), [])
    past.close()
    return folder
