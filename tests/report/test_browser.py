"""The page in a real browser: drawn, quiet, offline, usable by keyboard, in the dark, on paper and small."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner
from playwright.sync_api import Browser, Locator, Page, Request, expect, sync_playwright

from npc.report.command import report
from tests.gallery import observed
from tests.made.run_folder import everything, make_fleet, make_history, make_pairs, make_run

pytestmark = pytest.mark.slow

#: Of what is well axe describes one element a rule: to find a selector for each takes as long as all rules.
BRIEF = {"resultTypes": ["violations"]}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with three runs (of pairs, and of an observed program) and a history."""
    folder = tmp_path_factory.mktemp("browser")
    make_run(folder / "run")
    make_pairs(folder / "pairs")
    make_history(folder / "history")
    words = [
        folder / "run",
        folder / "pairs",
        observed(folder / "observed"),
        "--history",
        folder / "history",
        "--output",
        folder / "page.html",
    ]
    ended = CliRunner().invoke(report, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    return folder / "page.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium (Debian package chromium)")
    with sync_playwright() as playwright:
        # Root may not use Chromium's own sandbox.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class WatchedPage:
    """A file opened in a page, of which it notes what it says on the console and what it asks for."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.said: list[str] = []
        self.requests: list[Request] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.goto(file.as_uri())

    def find(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def css(self, selector: str, name: str) -> str:
        """A computed style of the first element."""
        value = self.find(selector).first.evaluate(f"each => getComputedStyle(each)['{name}']")
        return str(value)


@pytest.fixture(scope="module")
def window(browser: Browser) -> Page:
    """The page of all tests: another costs a second of CPU time."""
    return browser.new_context().new_page()


@pytest.fixture
def page(window: Page) -> Page:
    """The page as a new one: light, 1280 pixels wide, the mouse away, nothing stored."""
    window.goto("about:blank")
    window.emulate_media(media="screen", color_scheme="light")
    window.set_viewport_size({"width": 1280, "height": 900})
    window.mouse.move(0, 0)
    return window


@pytest.fixture
def shown(page: Page, page_file: Path) -> Iterator[WatchedPage]:
    """The page, which at the end must have said nothing and asked for nothing but itself."""
    watched = WatchedPage(page, page_file)
    yield watched
    assert watched.said == []
    assert [request.url.partition("#")[0] for request in watched.requests] == [page_file.as_uri()]


def box(locator: Locator) -> dict[str, float]:
    bounds = locator.bounding_box()
    assert bounds is not None, f"{locator} is not shown"
    return dict(bounds)


def test_every_chart_is_really_drawn(shown: WatchedPage) -> None:
    charts = shown.find("svg.chart")
    assert charts.count() >= 10
    counts = {"line": 0, "mark": 0, "cell": 0, "band": 0}
    for number in range(charts.count()):
        chart = charts.nth(number)
        frame = box(chart)
        assert frame["width"] > 100 and frame["height"] > 50
        drawn = chart.evaluate(
            """svg => [...svg.querySelectorAll(".line, .mark, .cell, .solid")].map(each => {
                 const box = each.getBBox(), at = each.getBoundingClientRect(), own = getComputedStyle(each);
                 const length = each.getTotalLength ? each.getTotalLength() : 0;
                 return {kind: each.classList[0], length, x: at.x, y: at.y,
                         right: at.right, bottom: at.bottom,
                         visible: own.stroke !== "none" || own.fill !== "none"};
               })"""
        )
        assert drawn
        for mark in drawn:
            counts[mark["kind"]] += 1
            assert mark["visible"] and mark["length"] > 4
            if mark["kind"] != "line":  # lines are clipped at the frame
                assert frame["x"] - 1 <= mark["x"] and mark["right"] <= frame["x"] + frame["width"] + 1
                assert frame["y"] - 1 <= mark["y"] and mark["bottom"] <= frame["y"] + frame["height"] + 1
    assert counts["line"] > 20 and counts["mark"] > 200 and counts["cell"] > 60


def test_labels_of_axes_neither_overlap_nor_stick_out(shown: WatchedPage) -> None:
    overlaps = shown.page.evaluate(
        """() => [...document.querySelectorAll("svg.chart")].flatMap(svg => {
             const outer = svg.getBoundingClientRect();
             return [".xlabels text", ".ylabels text", ".clabels text", "text.title"].flatMap(kind => {
               const boxes = [...svg.querySelectorAll(kind)].map(
                 text => [text.textContent, text.getBoundingClientRect()]);
               const out = boxes.filter(([, b]) => b.left < outer.left - 1 || b.right > outer.right + 1
                                                || b.top < outer.top - 1 || b.bottom > outer.bottom + 1);
               const on = boxes.filter(([, a], i) => boxes.some(([, b], j) => j > i && a.left < b.right - 1
                        && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3));
               return [...out, ...on].map(([text]) => `${svg.id} ${kind} ${text}`);
             });
           })"""
    )
    assert overlaps == []
    assert shown.find("svg.chart .xlabels text").count() > 30


def test_the_right_line_is_above_the_other(shown: WatchedPage) -> None:
    """Open MPI was measured 1.25 times as fast as MPICH: its marks are higher, by what the axis says."""
    chart = shown.find("#sizes svg.chart").first
    marks = chart.evaluate(
        """svg => [...svg.querySelectorAll(".mark")].map(m => [m.dataset.tip, m.getBoundingClientRect().y])"""
    )
    at = {tip.split("\n")[0] + tip.split("\n")[1].split(":")[0]: y for tip, y in marks}
    assert at["osu_bw · openmpi1 MiB"] < at["osu_bw · mpich1 MiB"] < at["osu_bw · mpich1 KiB"]
    decade = at["osu_bw · mpich1 B"] - at["osu_bw · mpich16 B"]
    assert (at["osu_bw · mpich1 B"] - at["osu_bw · openmpi1 B"]) / decade == pytest.approx(0.0804, abs=0.01)


def test_legends_switch_lines(shown: WatchedPage) -> None:
    chart = shown.find("#sizes svg.chart").first
    button = shown.find("#sizes .legend button").first
    trace = chart.locator('.trace[data-trace="0"]')
    before = box(trace)
    assert before["width"] > 100 and button.get_attribute("aria-pressed") == "true"
    button.focus()
    shown.page.keyboard.press("Enter")
    assert trace.bounding_box() is None and button.get_attribute("aria-pressed") == "false"
    assert box(chart.locator('.trace[data-trace="1"]'))["width"] > 100
    button.click()
    after = box(trace)
    assert (after["x"], after["width"]) == pytest.approx((before["x"], before["width"]))


def test_a_double_click_leaves_one_line_alone_and_another_shows_all(shown: WatchedPage) -> None:
    chart = shown.find("#sizes svg.chart").first
    button = shown.find("#sizes .legend button").first
    button.dblclick()
    assert box(chart.locator('.trace[data-trace="0"]'))["width"] > 100
    assert chart.locator('.trace[data-trace="1"]').bounding_box() is None
    button.dblclick()
    assert box(chart.locator('.trace[data-trace="1"]'))["width"] > 100


def test_filters_leave_the_rows_that_have_the_words(shown: WatchedPage) -> None:
    rows = shown.find("#records tbody tr")
    everything_shown = rows.count()
    field = shown.find("#records input[type=search]")
    field.fill("osu_bw MPICH")
    expect(shown.find("#records .matches")).to_have_text(f"21 of {everything_shown} rows")
    left = shown.find("#records tbody tr:visible")
    assert left.count() == 21 < everything_shown
    assert "mpich" in (left.first.text_content() or "") and "osu_bw" in (left.first.text_content() or "")
    field.fill("")
    shown.find("#only-bad").check()
    expect(left).to_have_count(4)  # two of the five bad records repeat each other
    shown.find("#only-bad").uncheck()
    expect(left).to_have_count(everything_shown)


def test_a_long_table_scrolls_in_its_place_below_its_headings(shown: WatchedPage) -> None:
    place = shown.find("#records .scroll").first
    page_height = shown.page.viewport_size["height"]  # type: ignore[index]
    assert place.evaluate("place => place.scrollHeight") > page_height > box(place)["height"]
    place.evaluate("place => place.scrollTo(0, 500)")
    assert box(place.locator("thead"))["y"] == pytest.approx(box(place)["y"], abs=1)


def test_tables_are_sorted_by_keyboard(shown: WatchedPage) -> None:
    table = shown.find("#summary table").first
    head = table.locator("thead th").nth(1)
    values = """table => [...table.tBodies[0].rows].map(row => row.cells[1].dataset.sort)
                         .filter(Boolean).map(Number)"""
    head.locator("button").focus()
    shown.page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    ascending = table.evaluate(values)
    assert len(ascending) > 8 and ascending == sorted(ascending)
    shown.page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert table.evaluate(values) == sorted(ascending, reverse=True)
    # Cells without a number stay at the end either way.
    last = table.evaluate(
        "table => table.tBodies[0].rows[table.tBodies[0].rows.length - 1].cells[1].textContent"
    )
    assert table.locator("thead th").nth(0).get_attribute("aria-sort") == "none"
    assert last is not None


#: Of the function that has the focus in a flame graph.
_FOCUSED = "document.activeElement.dataset.tip.split('\\n')[0]"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_flame_graph_is_walked_zoomed_and_searched_by_keyboard(shown: WatchedPage, width: int) -> None:
    page, keyboard = shown.page, shown.page.keyboard
    page.set_viewport_size({"width": width, "height": 844})
    flame, tools = shown.find("svg.flame"), shown.find(".flame-tools")
    flame.locator("svg.bar").first.focus()
    walk = ("ArrowDown", "main"), ("ArrowDown", "solve"), ("ArrowDown", "stencil"), ("ArrowRight", "sin")
    for key, name in (*walk, ("ArrowUp", "solve"), ("ArrowRight", "MPI_Allreduce"), ("ArrowLeft", "solve")):
        keyboard.press(key)
        assert page.evaluate(_FOCUSED) == name
    assert shown.find(".flame-said .said").inner_text() == (
        "solve · app (the program) · 54 % of all samples, 1.5 % its own · ranks: 36 % to 72 %"
    )
    bar = {name: flame.locator(f"svg.bar[data-tip^={name}] > rect") for name in ("solve", "sin", "MPI_")}
    whole = box(flame.locator("rect").first)
    assert box(bar["solve"])["width"] == pytest.approx(0.54 * whole["width"], abs=7)
    keyboard.press("Enter")
    assert box(bar["solve"])["width"] == pytest.approx(whole["width"], abs=7)
    assert box(bar["sin"])["width"] == pytest.approx(0.075 / 0.54 * whole["width"], abs=7)
    assert bar["MPI_"].bounding_box() is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    keyboard.press("Escape")
    assert box(bar["MPI_"])["width"] == pytest.approx(0.21 * whole["width"], abs=7)
    bar["sin"].click()
    assert box(bar["sin"])["width"] == pytest.approx(whole["width"], abs=7)
    field, status = tools.locator("input"), shown.find(".flame-said [role=status]")
    field.fill("mpi")
    expect(status).to_have_text("2 bars, 21 % of all samples")  # one within the other counts once
    keyboard.press("Enter")
    assert page.evaluate(_FOCUSED) == "MPI_Allreduce" and bar["MPI_"].is_visible()
    tools.locator("button").click()
    expect(status).to_have_text("all is shown")
    assert not shown.find(".bar.found").count()


def test_a_map_of_pages_has_its_colours_and_says_what_is_pointed_at(
    shown: WatchedPage, tmp_path: Path
) -> None:
    from PIL import Image

    page, picture = shown.page, shown.find("#memory svg.density").first
    picture.screenshot(path=tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=2**24) or ()}
    assert {(0, 0x22, 0x4E), (0xFD, 0xE7, 0x37), (0xD5, 0x30, 0x1E)} <= colours
    picture.locator(".spot").last.hover()
    assert (shown.find("#tip").text_content() or "").startswith("thread 1\n")
    first = picture.locator(".trace.first").first
    switch = shown.find("#memory figure:has(svg.density) .legend button").first
    switch.focus()
    page.keyboard.press("Enter")
    assert not first.is_visible() and switch.get_attribute("aria-pressed") == "false"


def test_a_mark_leads_to_its_record_and_says_what_it_is(shown: WatchedPage) -> None:
    mark = shown.find("#sizes svg.chart .mark[data-record]").nth(5)
    mark.scroll_into_view_if_needed()
    record = mark.get_attribute("data-record")
    mark.hover()
    assert shown.find("#tip").is_visible()
    assert "osu_bw" in (shown.find("#tip").text_content() or "")
    shown.page.keyboard.press("Escape")
    assert not shown.find("#tip").is_visible()
    shown.find("#records input[type=search]").fill("no row has these words")
    expect(shown.find("#records tbody tr:visible")).to_have_count(0)
    mark.click()
    row = shown.find(f"#{record}")
    row.wait_for(state="visible")
    assert shown.page.url.endswith(f"#{record}")
    view = box(row)
    assert 0 < view["y"] < 900
    assert "target" in (row.get_attribute("class") or "")
    assert shown.page.evaluate("document.activeElement.id") == record


def test_a_link_opens_what_its_target_is_folded_in(shown: WatchedPage) -> None:
    table = shown.find("#sizes figure details").first
    assert not table.locator("table").is_visible()
    table.locator("summary").focus()
    shown.page.keyboard.press("Enter")
    link = table.locator("tbody a").first
    link.wait_for(state="visible")
    record = link.get_attribute("data-record")
    link.focus()
    shown.page.keyboard.press("Enter")
    shown.find(f"#{record}.target").wait_for(state="visible")


def test_the_first_tab_skips_to_the_content_and_everything_can_be_reached(shown: WatchedPage) -> None:
    shown.page.keyboard.press("Tab")
    skip = shown.find(".skip")
    assert box(skip)["x"] >= 0
    shown.page.keyboard.press("Enter")
    assert shown.page.evaluate("document.activeElement.id") == "content"
    shown.page.keyboard.press("Tab")
    focused = shown.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert focused == "solid"


def test_dark_by_the_system_and_by_the_switch(browser: Browser, page_file: Path) -> None:
    context = browser.new_context(color_scheme="dark")
    try:
        dark = WatchedPage(context.new_page(), page_file)
        assert dark.css("body", "backgroundColor") == "rgb(20, 23, 26)"
        line = dark.css("svg.chart .trace.blue .line", "stroke")
        theme = dark.find("#theme")
        theme.click()
        assert theme.text_content() == "Theme: light"
        assert dark.css("body", "backgroundColor") == "rgb(255, 255, 255)"
        assert dark.css("svg.chart .trace.blue .line", "stroke") != line
        theme.click()
        assert theme.text_content() == "Theme: dark"
        assert dark.css("body", "backgroundColor") == "rgb(20, 23, 26)"
        assert dark.said == []
    finally:
        context.close()


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything, but little of it: axe looks at every pair of elements."""
    folder = tmp_path_factory.mktemp("small")
    sizes = (1, 4096, 1048576)
    measured = [
        record
        for record in everything()
        if record.sample == 0 and (record.benchmark != "osu" or record.size in sizes)
    ]
    make_run(folder / "run", measured)
    make_pairs(folder / "pairs", 4, slow=1)
    make_history(folder / "history", 12)
    words = [
        folder / "run",
        folder / "pairs",
        observed(folder / "observed"),
        "--history",
        folder / "history",
        "--output",
        folder / "page.html",
    ]
    assert CliRunner().invoke(report, [str(word) for word in words]).exit_code == 0
    return folder / "page.html"


def test_axe_finds_nothing_that_keeps_anybody_out(page: Page, small_file: Path) -> None:
    """All rules on the light page, those of colours on the dark one."""
    watched = WatchedPage(page, small_file)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    contrast = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
    for dark, rules, least in ((False, {}, 21), (True, contrast, 1)):
        page.emulate_media(color_scheme="dark" if dark else "light")
        assert (watched.css("body", "backgroundColor") == "rgb(20, 23, 26)") == dark
        audit = Axe().run(page, options={**BRIEF, **rules})
        violations = [
            f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in audit.response["violations"]
            for node in rule["nodes"][:3]
        ]
        assert not violations, "\n".join(violations)
        assert len(audit.response["passes"]) >= least
        assert audit.response["passes"][0]["nodes"]


@pytest.mark.parametrize("width", [1440, 390])
def test_at_two_widths_nothing_sticks_out_and_the_picture_is_not_blank(
    page: Page, page_file: Path, tmp_path: Path, width: int
) -> None:
    from PIL import Image

    page.set_viewport_size({"width": width, "height": 900})
    watched = WatchedPage(page, page_file)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    of_roofline = watched.find("#roofline figure").first
    picture = box(of_roofline.locator(".picture"))
    assert box(of_roofline.locator(".reading"))["y"] >= picture["y"] + picture["height"], "the picture first"
    for number, name in enumerate(("summary", "sizes", "roofline", "history", "pairs")):
        path = tmp_path / f"{number}.png"
        watched.find(f"#{name}").screenshot(path=path)
        with Image.open(path) as image:
            assert image.width >= width * 0.8 and image.height > 300
            colours = image.convert("RGB").getcolors(maxcolors=2**24)
        assert colours is not None and len(colours) > 50
    chart = box(watched.find("#roofline svg.chart").first)
    assert chart["width"] > (500 if width > 1000 else 300)
    for cell in ("td.long:visible", "#records td.params"):
        assert box(watched.find(cell).first)["width"] > 170, "no column of single words"


@pytest.mark.parametrize("media", ["screen", "print"])
def test_who_is_unlike_its_fleet_is_seen_on_a_phone_and_on_paper(
    page: Page, tmp_path: Path, media: Literal["screen", "print"]
) -> None:
    file = tmp_path / "page.html"
    words = ["--history", str(make_fleet(tmp_path / "history")), "--output", str(file)]
    assert CliRunner().invoke(report, words).exit_code == 0
    width = 390 if media == "screen" else 794  # A4
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media=media)
    watched = WatchedPage(page, file)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    told = watched.find('#summary .listing a[href="#allocation"]')
    expect(told).to_have_count(2)
    expect(watched.page.locator("#summary li", has_text="new: n0005")).to_be_visible()
    table = watched.find('#allocation table:has(caption:text("Unlike their fleet"))')
    expect(table.locator("tbody tr")).to_have_count(2)
    for cell in table.locator("tbody tr").first.locator("th, td").all():
        assert box(cell)["height"] < 100, "no column of single words"
    if media == "screen":
        told.first.click()
        expect(table).to_be_in_viewport()
    assert watched.said == []


@pytest.fixture(scope="module")
def roofline_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from npc.roofline.commands import roofline

    run = make_run(tmp_path_factory.mktemp("roofline") / "run", everything())
    assert CliRunner().invoke(roofline, [str(run)]).exit_code == 0
    return run / "roofline.html"


@pytest.mark.parametrize("width", [2560, 360])
def test_the_roofline_is_a_page_of_the_same_kind(page: Page, roofline_file: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    watched = WatchedPage(page, roofline_file)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    plots = watched.find(".picture")
    for number in range(2):  # that of MPI operations, too
        assert 300 < box(plots.nth(number).locator("svg.chart"))["width"] <= box(plots.nth(number))["width"]
    assert watched.find("svg.chart .mark").count() > 5
    for look in ({"media": "screen"}, {"color_scheme": "dark"}, {"media": "print"}):
        page.emulate_media(**look)
        assert not Axe().run(page, options=BRIEF).response["violations"]
    page.emulate_media(media="screen")
    mark = watched.find("svg.chart .mark").last
    mark.hover()
    assert watched.find("#tip").is_visible()
    assert watched.said == []
    assert len(watched.requests) == 1


def test_on_paper_there_are_pictures_and_no_switches(shown: WatchedPage) -> None:
    shown.page.emulate_media(media="print", color_scheme="dark")
    for selector in ("nav", "#theme", "#records", ".filter", '.listing a:text-is("details")'):
        assert not shown.find(selector).first.is_visible(), selector
    assert shown.find("#summary table").first.is_visible()
    assert box(shown.find("#sizes svg.chart").first)["height"] > 100
    assert shown.css("body", "backgroundColor") == "rgb(255, 255, 255)"
    shown.page.set_viewport_size({"width": 794, "height": 1123})  # A4
    assert box(shown.find("#advice tbody th").first)["width"] > 60, "no broken words"
    paper = shown.page.pdf()
    assert paper.startswith(b"%PDF") and len(paper) > 50_000


def test_without_javascript_everything_can_still_be_read(browser: Browser, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(page_file.as_uri())
        assert not page.locator("#theme").is_visible()
        assert page.locator("svg.chart").count() >= 10
        assert box(page.locator("svg.bar[data-tip^=stencil] rect"))["width"] > 300
        assert not page.locator(".flame-tools").is_visible()
        link = page.locator("#summary tbody a").first
        record = link.get_attribute("data-record")
        link.click()
        assert page.locator(f"#{record}").is_visible()
    finally:
        context.close()


def test_hostile_names_do_nothing_in_a_browser(page: Page, tmp_path: Path) -> None:
    from npc.records.record import replace
    from tests.made.run_folder import HOSTILE

    measured = [
        replace(record, case=f"{record.case}{HOSTILE}", params={**record.params, "mpi": HOSTILE})
        for record in everything()
        if record.sample == 0  # every kind of record, once
    ]
    run = make_run(tmp_path / "run", measured)
    assert CliRunner().invoke(report, [str(run)]).exit_code == 0
    watched = WatchedPage(page, run / "report.html")
    assert watched.find("svg.chart .mark").count() > 50
    assert watched.find("img").count() == 0
    watched.find("#records input[type=search]").fill("<img onerror")
    expect(watched.find("#records .matches")).not_to_be_empty()
    assert watched.find("#records tbody tr:visible").count() > 10
    assert watched.said == []
    assert len(watched.requests) == 1
