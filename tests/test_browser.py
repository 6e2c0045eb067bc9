"""The page in a real Chromium: offline, silent, readable without JavaScript, on a phone, on paper, and by assistive technology."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import records

import reports

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--headless=new", "--disable-gpu"]


def missing(reason: str) -> None:
    """Skip for lack of a tool; in CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        missing("no Chromium on this machine")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    runs = [records.make(16, 2, 24, key) for key in range(3)]
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(reports.render(runs[-1], previous=runs[:-1], extras=records.extras()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def open_page(browser, address):
    """Opens the page in a fresh context; network, console and errors are watched and must stay silent."""
    contexts, noise = [], []

    def opened(hash_: str = "", **settings):
        context = browser.new_context(reduced_motion="reduce", offline=True, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda r: noise.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
        page.on("console", lambda m: noise.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: noise.append(f"error: {e}"))
        page.goto(address + hash_)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert noise == []


def node_count(page) -> int:
    """Elements of the page as loaded."""
    return page.evaluate("document.getElementsByTagName('*').length")


def write(folder, name: str, *size: int) -> str:
    """A page of records.make(*size); returns its address."""
    path = folder / name
    path.write_text(reports.render(records.make(*size)), encoding="utf-8")
    return path.as_uri()


def test_every_section_is_filled_offline(open_page):
    page = open_page()
    for name in records.SECTIONS:
        assert len(page.locator(f"#{name}").inner_text()) > 60, name
    assert page.locator("svg.proof a.node").count() > 10
    assert page.locator("math").count() > 30


def test_readable_without_javascript(open_page):
    page = open_page(java_script_enabled=False)
    for name in records.SECTIONS:
        assert page.locator(f"#{name}").is_visible(), name
    assert page.locator("#claim-table tbody tr").count() == 16
    assert page.locator(".filters").is_hidden()
    assert page.locator(".graph-tools").is_hidden()
    page.locator('[id="claim-E.3"] > summary').click()
    assert page.locator('[id="claim-E.3"] .statement').is_visible()
    page.locator(".graph-list > summary").click()
    assert page.locator(".tree li").count() > 10


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_sideways_scroll(open_page, width):
    page = open_page(viewport={"width": width, "height": 740})
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_function("!document.querySelector('noscript')")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_phone_shows_the_list_instead_of_the_drawing(open_page):
    page = open_page(viewport={"width": 360, "height": 740})
    assert page.locator(".graph-scroll").is_hidden()
    page.locator(".graph-list > summary").click()
    assert page.locator(".tree li").first.is_visible()


def test_table_filters_sorts_and_keeps_its_state_in_the_address(open_page):
    page = open_page()
    rows = page.locator("#claim-table tbody tr:visible")
    page.locator("input[name=q]").fill("number 7")
    assert rows.count() == 1
    assert "q=number" in page.evaluate("location.hash")
    page.locator("input[name=q]").fill("")
    page.locator('th[data-sort="margin"] button').click()
    margins = page.evaluate(
        "[...document.querySelectorAll('#claim-table tbody tr')].map(r => r.dataset.margin).filter(Boolean).map(Number)"
    )
    assert margins == sorted(margins)
    assert page.locator('th[data-sort="margin"]').get_attribute("aria-sort") == "ascending"
    again = open_page(page.evaluate("location.hash"))
    assert again.locator('th[data-sort="margin"]').get_attribute("aria-sort") == "ascending"
    again.locator("select[name=kind]").select_option("identity")
    assert again.locator("#claim-table tbody tr:visible").count() == 2
    assert again.locator("#shown").inner_text() == "2 of 16 claims"


def test_graph_selection_shows_ancestors_and_is_kept_in_the_address(open_page):
    page = open_page()
    page.locator('a.node[data-id="E.9"]').click()
    # E.9 <- E.4, E.3; E.4 <- E.2, E.1; E.3 <- E.1; E.2 <- E.1, E.0; E.1 <- E.0
    up = page.evaluate("[...document.querySelectorAll('a.node.up')].map(n => n.dataset.id).sort()")
    assert up == ["E.0", "E.1", "E.2", "E.3", "E.4"]
    assert page.evaluate("[...document.querySelectorAll('a.node.down')].length") == 0
    assert "depth 4, 5 ancestors, 0 descendants" in page.locator("#graph-info").inner_text()
    again = open_page(page.evaluate("location.hash"))
    assert again.evaluate("document.querySelector('a.node.self').dataset.id") == "E.9"
    again.locator("#graph-clear").click()
    assert again.evaluate("document.querySelectorAll('a.node.self').length") == 0


def test_link_to_a_card_opens_it(open_page):
    page = open_page("#claim-E.5")
    assert page.locator('[id="claim-E.5"]').get_attribute("open") is not None
    assert page.evaluate("document.getElementById('claim-E.5').getBoundingClientRect().top < innerHeight")


@pytest.mark.parametrize("script", [True, False])
def test_a_card_shows_its_charts(open_page, script):
    page = open_page(java_script_enabled=script)
    page.locator('[id="claim-E.3"] > summary').click()
    charts = page.locator('[id="claim-E.3"] .chart')
    charts.first.wait_for(state="visible")
    assert charts.count() == 4  # a curve and a histogram in each of two regimes


def test_charts_of_closed_cards_cost_nothing(browser, tmp_path):
    page = browser.new_page(offline=True)
    counts = {}
    for size in ((20, 2, 24), (40, 2, 24), (40, 2, 240)):
        page.goto(write(tmp_path, "page.html", *size))
        assert page.locator(".card:not([open]) .chart").count() == 0
        page.evaluate("document.querySelectorAll('.card').forEach(c => c.remove())")
        counts[size] = node_count(page)
    page.close()
    # Without the cards: a row, a node and an entry or two of the lists per claim; the number of seeds adds nothing.
    assert counts[40, 2, 240] <= counts[40, 2, 24] + 10
    assert (counts[40, 2, 24] - counts[20, 2, 24]) / 20 <= 100


def test_hundreds_of_claims_are_laid_out_only_near_the_view(browser, tmp_path):
    page = browser.new_page(viewport={"width": 1280, "height": 800}, offline=True, reduced_motion="reduce")
    address = write(tmp_path, "long.html", 160, 2, 12)
    page.goto(address)
    skipped = (
        "[...document.querySelectorAll('main > section')].filter(s => !s.lastElementChild.checkVisibility({contentVisibilityAuto: true}))"
    )
    names = page.evaluate(skipped + ".map(s => s.id)")
    assert {"claims", "cards", "health"} <= set(names)
    page.locator('#claim-table a[href="#claim-E.150"]').click()
    assert 0 <= page.evaluate("document.getElementById('claim-E.150').getBoundingClientRect().top") < 800
    page.locator("input[name=q]").fill("E.77")
    assert page.locator("#claim-table tbody tr:visible").count() == 1
    page.close()


def test_a_cell_of_the_matrix_opens_its_points_and_closes_again(open_page):
    page = open_page()
    cell = page.locator("a.m-needed").first
    cell.click()
    assert cell.get_attribute("aria-expanded") == "true"
    row = page.locator("#matrix tr.opened")
    assert "REFUTED" in row.inner_text()
    assert "verify run" in row.locator("code").inner_text()
    cell.click()
    assert row.count() == 0


def test_the_matrix_is_filtered_by_result_and_keeps_that_in_the_address(open_page):
    page = open_page()
    page.locator("#matrix-filter select").select_option("undecided")
    again = open_page(page.evaluate("location.hash"))
    shown = again.locator("#matrix a.m:visible")
    assert shown.count() == again.locator("#matrix a.m-undecided").count() > 0
    assert again.locator("#matrix-shown").inner_text().startswith(f"{shown.count()} cells")


def test_matrix_without_javascript_leads_to_the_points(open_page):
    page = open_page(java_script_enabled=False)
    page.locator("a.m-needed").first.click()
    target = page.locator(f'[id="{page.locator("a.m-needed").first.get_attribute("href")[1:]}"]')
    assert target.is_visible()
    assert "REFUTED" in target.inner_text()


def test_a_link_into_the_points_opens_all_around_it(open_page):
    page = open_page("#need-E.3-sparsity")
    assert page.locator('[id="need-E.3-sparsity"]').is_visible()


@pytest.mark.parametrize("script", [True, False])
def test_paper_shows_every_card_open(open_page, script):
    page = open_page(java_script_enabled=script)
    page.emulate_media(media="print")
    closed = page.locator("details.card:not([open]) .statement")
    assert closed.count() > 5
    assert all(closed.nth(k).is_visible() for k in range(closed.count()))
    assert page.locator(".filters").is_hidden()
    assert page.locator(".card .curve").count() > 10
    assert page.locator(".card noscript .curve").count() == (0 if script else page.locator(".card .curve").count())
    pages = page.pdf(format="A4").count(b"/Type /Page\n")
    # 16 cards with 20 panels of two charts each do not fit on fewer than ten sheets; closed they fit on six.
    assert pages >= 10


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_axe_finds_nothing(open_page, scheme, width):
    source = os.environ.get("AXE_CORE", "")
    if not source or not Path(source).exists():
        missing("AXE_CORE does not name axe.min.js (.ci/run gets it by `npm pack axe-core`)")
    page = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_function("!document.querySelector('noscript')")
    page.evaluate(Path(source).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found] == []
