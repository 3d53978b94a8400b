"""The pictures: really drawn, with every ceiling named, and a page that fetches nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.figures.axes import quantity_axis
from npc.figures.chart import Chart
from npc.figures.labels import spread
from npc.figures.paper import DPI
from npc.figures.printed import save
from npc.machine.platform import Platform
from npc.records.record import Record, replace
from npc.roofline.analyse import analyse
from npc.roofline.ceilings import find_ceilings
from npc.roofline.figure import draw
from npc.roofline.page import write_page
from npc.roofline.result import Roofline
from npc.roofline.scene import compose
from tests.made.measured import level, peak, records
from tests.made.observed import launch

NODE = Platform(name="fuchs", cores=20, clock_hz=2.5e9, simd_bits=256, simd_units=2, fma=False)


def machine() -> list[Record]:
    """Records of a machine with every kind of ceiling."""
    return [
        *peak("peakflops_avx", 380e9),
        *peak("peakflops_sp_avx", 760e9),
        *level("L1", "load_avx", 1600e9, size=400_000),
        *level("L2", "load_avx", 800e9),
        *level("L3", "load_avx", 400e9),
        *level("MEM", "load_avx", 85e9),
        *records("stream", "triad", 78e9),
        *records("osu", "osu_bw", 6.2e9, nodes=2, size=4 * 2**20),
        *records("qperf", "tcp_bw", 1.1e9, nodes=2),
        *records("qperf", "udp_bw", 1.0e9, nodes=2),
    ]


def svg_texts(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]


class Shown(HTMLParser):
    """What a page has: by the number of its switch, what the parts of each line say when they are pointed at,
    and the names of switches."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tips: dict[int, list[str]] = {}
        self.kinds: dict[int, list[dict[str, str | None]]] = {}
        self.names: dict[int, str] = {}
        self.notes: list[str] = []
        self._trace = self._button = -1
        self._in_note = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "button":
            self._button = int(values.get("data-trace") or -1)
        if tag == "g" and values.get("data-trace"):
            self._trace = int(values["data-trace"] or -1)
        kind = (values.get("class") or "").split(" ")[0]
        if kind in ("line", "band", "mark") and self._trace >= 0 and self._button < 0:
            self.kinds.setdefault(self._trace, []).append(values)
            if "data-tip" in values:
                self.tips.setdefault(self._trace, []).append(values["data-tip"] or "")
        self._in_note = kind == "note" and tag == "text"

    def handle_endtag(self, tag: str) -> None:
        self._button = -1 if tag == "button" else self._button
        self._in_note = False

    def handle_data(self, data: str) -> None:
        if self._button >= 0:
            self.names[self._button] = self.names.get(self._button, "") + data.strip()
        if self._in_note:
            self.notes.append(data)

    def number(self, name: str) -> int:
        (found,) = [number for number, known in self.names.items() if known.startswith(name)]
        return found


@pytest.mark.slow
def test_the_png_is_wide_enough_and_not_blank(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "roofline.png"
    assert draw(find_ceilings(machine(), NODE), [path])
    with Image.open(path) as image:
        assert image.width >= 1600
        assert image.info["dpi"] == pytest.approx((DPI, DPI), abs=0.01)
        colours = image.convert("RGB").getcolors(maxcolors=2**24)
    assert colours is not None
    painted = {colour for count, colour in colours if count > 200}
    # Each level's own colour is there, at full strength.
    assert {(0x33, 0x22, 0x88), (0x00, 0x72, 0xB2), (0x56, 0xB4, 0xE9), (0x00, 0x9E, 0x73)} <= painted


def test_titles_side_by_side_keep_within_their_panels(tmp_path: Path) -> None:
    """A long one is smaller, a very long one is cut; 12 points are what a short one has."""
    titles = ["short", "bandwidth of a benchmark with parameters that fill a line", 16 * "very long "]
    axis = quantity_axis("", [1, 10], "B/s")
    save([Chart("", title, "", axis, axis, ()) for title in titles], [tmp_path / "a.svg"], columns=2)
    shown = {
        "".join(text.itertext()): float(re.findall(r"([\d.]+)px", text.get("style", ""))[0])
        for text in ElementTree.parse(tmp_path / "a.svg").iter("{http://www.w3.org/2000/svg}text")
        if "bold" in text.get("style", "") or "700" in text.get("style", "")
    }
    short, long, cut = sorted(shown, key=len)
    assert [short, long] == titles[:2] and titles[2].startswith(cut.removesuffix("…")) and cut[-1] == "…"
    assert shown[short] == 12 > shown[long] > shown[cut] == 8.5


def test_the_svg_names_every_ceiling_with_value_and_interval(tmp_path: Path) -> None:
    path = tmp_path / "roofline.svg"
    roofline = find_ceilings(machine(), NODE)
    assert draw(roofline, [path])
    texts = [re.sub(r"\s+", " ", text) for text in svg_texts(path)]
    for ceiling in roofline.ceilings:
        assert any(f"{text} ".startswith(f"{ceiling.name} ") for text in texts), ceiling.name
    assert "L1 load 1.6 TB/s [1.44, 1.76]" in texts
    assert "380 GFLOP/s [342, 418]" in texts  # below "peak double", at its end
    assert "theoretical peak single" in texts and "800 GFLOP/s" in texts
    assert "4.47–4.87" in texts  # ridge points of MEM load and STREAM, nearly equal, with peak double
    assert "Roofline of fuchs" in texts
    assert any("node1" in text and "2026-11-20 to 2026-11-26" in text for text in texts)


def test_the_same_records_make_the_same_svg(tmp_path: Path) -> None:
    roofline = find_ceilings(machine())
    draw(roofline, [tmp_path / "a.svg"])
    draw(roofline, [tmp_path / "b.svg"])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_of_many_nearly_equal_ceilings_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    crowd = [
        record
        for number in range(40)
        for record in records("nuttcp", f"tcp_{number}", 6e9 + number * 1e6, nodes=2)
    ]
    path = tmp_path / "roofline.svg"
    assert draw(find_ceilings([*peak("peakflops_avx", 380e9), *crowd]), [path])
    texts = [re.sub(r"\s+", " ", text) for text in svg_texts(path)]
    named = [n for n in range(40) if any(text.startswith(f"nuttcp tcp_{n} 6") for text in texts)]
    assert named == [36, 37, 38, 39]
    assert "and 36 more" in texts


def test_names_with_markup_are_text_and_nothing_else(tmp_path: Path) -> None:
    odd = "n$x^2$<b>&_1"
    roofline = find_ceilings([replace(record, hosts=(odd,), raw=f"raw/{odd}.out") for record in machine()])
    draw(roofline, [tmp_path / "roofline.svg"])
    assert any(odd in text for text in svg_texts(tmp_path / "roofline.svg"))
    write_page(roofline, tmp_path / "roofline.html")
    page = (tmp_path / "roofline.html").read_text(encoding="utf-8")
    assert odd not in page
    assert any(f"raw: raw/{odd}.out" in tip for tips in Shown(page).tips.values() for tip in tips)


@pytest.mark.parametrize(
    ("measured", "lines"),
    [
        ([*peak("peakflops_avx", 380e9)], ["peak double"]),
        ([*peak("peakflops_avx", 380e9), *records("osu", "osu_bw", 6e9)], ["peak double", "osu_bw"]),
        ([*peak("peakflops_avx", 380e9, spread=(1.0,))], ["peak double"]),
        ([*peak("peakflops_avx", 1.0), *level("MEM", "load", 1e15)], ["peak double", "MEM load"]),
    ],
)
def test_what_there_is_is_drawn(tmp_path: Path, measured: list[Record], lines: list[str]) -> None:
    roofline = find_ceilings(measured)
    scene = compose(roofline)
    assert scene is not None
    assert [line.ceiling.name for line in scene.lines] == lines
    assert draw(roofline, [tmp_path / "roofline.png"])
    assert write_page(roofline, tmp_path / "roofline.html")
    assert (tmp_path / "roofline.png").stat().st_size > 10_000


def test_without_a_peak_nothing_is_drawn_unless_a_theoretical_one_is_known(tmp_path: Path) -> None:
    network = [*records("osu", "osu_bw", 6e9)]
    path = tmp_path / "roofline.png"
    assert not draw(find_ceilings(network), [path])
    assert not write_page(find_ceilings(network), path)
    assert not path.exists()
    assert draw(find_ceilings(network, NODE), [path])


def test_lines_end_at_the_roof_and_bands_hold_the_interval() -> None:
    roofline = find_ceilings(machine())
    scene = compose(roofline)
    assert scene is not None
    for line in scene.lines:
        low, high = line.ceiling.low, line.ceiling.high
        assert low is not None
        assert high is not None
        if line.sloped:
            assert line.height(line.end) == pytest.approx(760e9)
            assert line.band()[1:3] == [(760e9 / low, 760e9), (760e9 / high, 760e9)]
        else:
            # The left end lies on the steepest bandwidth, L1's.
            assert line.start * 1600e9 == pytest.approx(line.ceiling.value)
            assert {y for _, y in line.band()} == {low, high}
    for ridge, _ in scene.ridges:
        assert scene.x[0] < ridge.intensity < scene.x[1]
        assert scene.y[0] < ridge.performance < scene.y[1]


@given(
    st.lists(st.floats(min_value=0, max_value=2000), max_size=30).map(sorted),
    st.floats(min_value=1, max_value=50),
)
def test_spread_places_keep_their_distance_and_stay_where_there_is_room(
    wanted: list[float], width: float
) -> None:
    places = spread(wanted, width)
    assert len(places) == len(wanted)
    assert all(right - left >= width * (1 - 1e-6) - 1e-6 for left, right in pairwise(places))
    if all(right - left >= width for left, right in pairwise(wanted)):
        assert places == pytest.approx(wanted)


class _Loads(HTMLParser):
    """Collects what a browser would fetch, and the content security policies."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.policies: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.fetched += [
            f"{tag} {key}"
            for key in ("src", "href", "data", "srcset")
            if key in values and not (values[key] or "").startswith("#")
        ]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(values["content"] or "")


def _page(roofline: Roofline, folder: Path) -> str:
    path = folder / "roofline.html"
    assert write_page(roofline, path)
    return path.read_text(encoding="utf-8")


def test_the_page_fetches_nothing_and_forbids_it(tmp_path: Path) -> None:
    loads = _Loads()
    loads.feed(_page(find_ceilings(machine()), tmp_path))
    assert loads.fetched == []
    (policy,) = loads.policies
    assert "default-src 'none'" in policy
    assert "http" not in policy


def nights() -> Roofline:
    """An application under a machine's ceilings: six nights of two runs, ever slower."""
    runs = [
        record
        for night in range(6)
        for sample in range(2)
        for record in launch(
            "app",
            2,
            (20 - night + 0.1 * sample) * 1e9,
            200e9,
            1e9,
            1e9,
            sample=sample,
            day=f"2026-11-1{night}",
        )
    ]
    return analyse([*machine(), *runs])


def test_hovering_over_an_application_tells_its_intervals_and_every_point_its_record(tmp_path: Path) -> None:
    shown = Shown(_page(nights(), tmp_path))
    number = shown.number("app")
    *points, middle = shown.tips[number]
    runs, trail = points[:12], points[12:]
    assert runs[0].splitlines()[1:] == [
        "2026-11-10T08:00:00, raw: 1_app/launches/raw/0000.out", "50 FLOP/byte, 10 GFLOP/s",
    ]  # fmt: skip
    assert [tip.splitlines()[1].split(",")[0] for tip in trail] == [
        f"median of 2026-11-1{night}" for night in range(6)
    ]
    assert "raw: 1_app/launches/raw/0000.out" in trail[0]
    assert [tip.splitlines()[2].split(", ")[1] for tip in trail] == [
        "10 GFLOP/s", "9.53 GFLOP/s", "9.03 GFLOP/s", "8.53 GFLOP/s", "8.03 GFLOP/s", "7.53 GFLOP/s",
    ]  # fmt: skip
    days = [
        part for part in shown.kinds[number] if "filling" in (part["class"] or "") or "fill-opacity" in part
    ]
    # and the last night is filled
    assert [part["fill-opacity"] for part in days] == ["0.00", "0.20", "0.40", "0.60", "0.80"]
    assert sorted(shown.notes) == ["2026-11-10", "2026-11-15"]
    (application,) = nights().applications
    assert application.flops.low is not None
    for fact in (
        "8.78 GFLOP/s [7.53, 10] a node",
        "50 FLOP/byte [50, 50]",
        "12 runs in 6 nights, 2026-11-10 to 2026-11-15, on n0, n1, in brackets the 96.9 % interval of the "
        "nights' median",
        "raw: 1_app/launches/raw/0000.out and 11 more",
    ):
        assert fact in middle, middle
    bars = [part for part in shown.kinds[number] if part["class"] == "line" and part["stroke-width"] == "1.2"]
    assert len(bars) == 1, "the intervals of the median"


def test_the_picture_shows_where_a_trail_begins_and_ends_and_the_interval_of_its_median(
    tmp_path: Path,
) -> None:
    path = tmp_path / "roofline.svg"
    assert draw(nights(), [path])
    texts = svg_texts(path)
    assert "2026-11-10" in texts
    assert "2026-11-15" in texts
    assert "2026-11-11" not in texts
    scene = compose(nights())
    assert scene is not None
    (mark,) = scene.marks
    application = mark.application
    assert mark.bars[-1] == ((mark.x, application.flops.low), (mark.x, application.flops.high))


def test_hovering_tells_the_source_and_the_legend_switches_whole_ceilings(tmp_path: Path) -> None:
    shown = Shown(_page(find_ceilings(machine(), NODE), tmp_path))
    number = shown.number("L1 load")
    line, *_, handle = shown.tips[number]
    for fact in (
        "1.6 TB/s",
        "96.9 % interval [1.44, 1.76]",
        "likwid load_avx",
        "7 samples",
        "size 391 KiB",
        "raw: raw/likwid-load_avx-0.out and 6 more",
    ):
        assert fact in line
        assert fact in handle
    assert "95 % of the nominal 400 GFLOP/s" in shown.tips[shown.number("peak double")][0]
    # The band, the line, one ridge point with each peak, and what can be pointed at.
    kinds = [(part["class"] or "").split()[0] for part in shown.kinds[number]]
    assert kinds == ["band", "line", "mark", "mark", "mark"]
    ends = re.findall(r"([\d.]+) ([\d.]+)", shown.kinds[number][1]["d"] or "")
    assert len(ends) == 2
