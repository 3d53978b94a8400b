"""A verdict as metrics in Prometheus' text format, for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from npc.cron.series import label
from npc.cron.verdict import NightVerdict
from npc.records.units import METRICS


class Gauge(Collector):
    """A metric and its samples, one for each set of labels: of several values the highest, which is the worst
    of verdicts and of slowdowns."""

    def __init__(self, registry: CollectorRegistry, name: str, text: str) -> None:
        self._name, self._text = name, text
        self._samples: dict[tuple[tuple[str, str], ...], float] = {}
        registry.register(self)

    def add(self, value: float, **labels: str) -> None:
        """A sample; its labels are always given in the same order."""
        place = tuple((name, _utf8(text)) for name, text in labels.items())
        self._samples[place] = max(value, self._samples.get(place, value))

    def collect(self) -> Iterator[Metric]:
        """The metric as the library prints it; none without samples."""
        metric = Metric(self._name, self._text, "gauge")
        for labels, value in self._samples.items():
            metric.add_sample(self._name, dict(labels), value)
        if metric.samples:
            yield metric


def textfile(night: NightVerdict, ended: float) -> str:
    """The metrics of a night.

    ended: seconds since the epoch; a rule on `npc_night_end_timestamp_seconds` notices nights that stay away.
    """
    registry, platform = CollectorRegistry(), night.platform
    end = Gauge(registry, "npc_night_end_timestamp_seconds", "When the last night ended.")
    worst = Gauge(registry, "npc_night_verdict", "Exit code of the last night: 0 good, 10 to 14 bad.")
    counts = Gauge(registry, "npc_night_series", "Series by verdict.")
    verdicts = Gauge(registry, "npc_series_verdict", "Verdict of a series: 0 to 14, WATCH 0.5.")
    values = Gauge(registry, "npc_series_value", "Tonight's median of a series, in SI units.")
    lost = Gauge(registry, "npc_node_lost", "Nodes that died while they were measured.")
    about = "Whom the history names, by how much it is slower (1: it fails)."
    slowdowns = Gauge(registry, "npc_suspect_slowdown", about)
    end.add(ended, platform=platform)
    worst.add(night.exit_code, platform=platform)
    for verdict, number in night.counts.items():
        counts.add(number, platform=platform, verdict=verdict)
    for series in night.series:
        key = series.key
        # All of what identifies it: its words may be those of another series, too.
        identity = {name: "" if value is None else str(value) for name, value in key._asdict().items()}
        labels = {"series": label(key), **identity}
        verdicts.add(series.verdict.gravity, **labels)
        if series.value is not None:
            values.add(series.value, **labels, unit=METRICS[key.metric].unit)
    for name in night.lost:
        lost.add(1, platform=platform, node=name)
    for suspect in night.suspects:
        if suspect.named:
            slowdown = 1.0 if suspect.slowdown is None else suspect.slowdown
            slowdowns.add(slowdown, platform=platform, kind=suspect.kind, name=suspect.name)
    return generate_latest(registry).decode()


def _utf8(text: str) -> str:
    """What is no text (a lone surrogate) as its escape."""
    return text.encode(errors="backslashreplace").decode()
