"""Records of programs that were observed while they ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npc.records.record import Record
from npc.records.units import METRICS


def launch(
    name: str,
    nodes: int,
    flops: float,
    flop: float,
    received: float = 0.0,
    sent: float = 0.0,
    *,
    sample: int = 0,
    day: str = "2026-11-20",
    hosts: Sequence[str] = (),
    params: Mapping[str, str] | None = None,
    **more: float,
) -> Iterator[Record]:
    """Records of one observed launch: rates of all nodes, bytes of one node that stands for the others."""

    said = {"program": name, **(params or {})}

    def record(case: str, metric: str, value: float, raw: str, params: Mapping[str, str]) -> Record:
        return Record(
            time=f"{day}T08:00:00+00:00",
            platform="fuchs",
            benchmark=name.lower(),
            case=case,
            metric=metric,
            value=value,
            unit=METRICS[metric].unit,
            nodes=nodes,
            hosts=tuple(hosts) or tuple(f"n{number}" for number in range(nodes)),
            run=day,
            sample=sample,
            params=params,
            raw=f"1_{name}/launches/raw/{sample:04d}.{raw}",
        )

    yield record(name, "flops", flops, "out", said)
    yield record(name, "flop", flop, "out", said)
    for metric, value in more.items():
        yield record(name, metric, value, "out", said)
    for direction, value in (("received", received), ("sent", sent)):
        place = {"node": next(iter(hosts), "n0"), "port": "mlx4_0/1", "direction": direction, "program": name}
        yield record("observed", "traffic", value, "observed.json", place)
