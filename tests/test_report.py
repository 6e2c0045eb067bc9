"""The report is a pure function of records: complete, byte-identical, escaped, bounded, with formulas that render or name their claim."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import records

import reports
from reports import charts, history, layout, mathml, model
from reports.ladder import fit_chart

RECORD = records.make()
PAGE = reports.render(RECORD, extras=records.extras())
HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'`\u202e{{7*7}}&lt;"


class Tags(HTMLParser):
    """Collects every start tag with its attributes, and checks that elements nest."""

    VOID = frozenset({"meta", "link", "input", "img", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag


def parse(page: str) -> Tags:
    """All tags of a page."""
    found = Tags()
    found.feed(page)
    assert found.open == []
    return found


def without_scripts(page: str) -> str:
    """The page without its scripts and styles: what a reader sees."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)


def test_every_section_is_there_and_nests():
    ids = [a["id"] for _, a in parse(PAGE).tags if a.get("id")]
    assert [i for i in ids if i in records.SECTIONS] == records.SECTIONS
    assert len(set(ids)) == len(ids)
    links = [a["href"][1:] for t, a in parse(PAGE).tags if t == "a" and (a.get("href") or "").startswith("#")]
    assert set(links) <= set(ids)


def test_same_records_same_bytes_also_in_another_process():
    again = reports.render(copy.deepcopy(RECORD), extras=records.extras())
    assert again == PAGE
    code = "import sys, json, records, reports; sys.stdout.buffer.write(reports.render(records.make(), extras=records.extras()).encode())"
    where = {"PYTHONPATH": f"{records.__file__.rpartition('/')[0]}", "PYTHONHASHSEED": "77", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=where)
    assert done.stdout == PAGE.encode()


def test_builds_without_torch_and_numba():
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'numba', 'sympy', 'matplotlib'): raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import json, reports; print(len(reports.render(json.load(sys.stdin))))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(RECORD), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(reports.render(json.loads(json.dumps(RECORD))))


def test_nothing_is_fetched():
    for tag, attributes in parse(PAGE).tags:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            value = attributes.get(name) or ""
            assert value.startswith(("#", "data:")) or not value, (tag, value)
    assert "@import" not in PAGE
    assert not re.search(r"url\((?!#)", PAGE)


def test_source_lines_are_links_where_the_record_names_a_repository():
    record = records.make(3, 1, 12)
    assert "blob/" not in reports.render(record)
    record["run"] |= {"repository": "https://code.example/group/signgd.git", "commit": "0123abc"}
    assert 'href="https://code.example/group/signgd/blob/0123abc/lemmas/stage2.py#L11"' in reports.render(record)
    record["run"]["repository"] = "javascript:alert(1)//https://code.example/x"
    assert "blob/" not in reports.render(record)


def test_every_claim_has_a_card_a_row_and_a_replay_line():
    for row in RECORD["verdicts"]:
        assert f'id="claim-{row["id"]}"' in PAGE
        if row["regime"]:
            assert f"verify replay {row['id']} --seed 7 --regime {row['regime']}" in PAGE
    assert PAGE.count("<tr data-kind=") == len(RECORD["run"]["claims"])


def test_hostile_strings_come_out_escaped():
    record = records.make(4, 1, 12)
    info = record["run"]["claims"][3]
    for key in ("id", "title", "source", "location", "units"):
        info[key] = HOSTILE
    record["run"]["regimes"][0]["name"] = HOSTILE
    record["run"]["fingerprint"] = HOSTILE
    for row in record["verdicts"]:
        if row["id"] == "E.3":
            row |= {"id": HOSTILE, "regime": HOSTILE, "reason": HOSTILE + r" \undefinedmacro{x} $\nomacro$"}
    extras = {"controls": [{"claim": HOSTILE, "name": HOSTILE, "verdict": "ERROR", "caught": False}]}
    page = reports.render(record, extras=extras)
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "49" not in re.findall(r"onerror=alert\(2\)&gt;&#39;`\u202e(.*?)&amp;lt;", page)
    scripts = [a for t, a in parse(page).tags if t == "script"]
    assert len(scripts) == 3
    for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S):
        assert "<" not in block
        json.loads(block)


def test_an_unknown_macro_names_the_claim():
    record = records.make(3, 1, 12)
    record["run"]["claims"][2]["statement"] = r"$\frobnicate{x} \le 1$"
    with pytest.raises(reports.FormulaError, match=r"E\.2.*frobnicate"):
        reports.render(record)
    record["run"]["claims"][2]["statement"] = r"$\frac{1}$"
    with pytest.raises(reports.FormulaError, match=r"E\.2"):
        reports.render(record)


@pytest.mark.parametrize(
    ("latex", "letters"),
    [
        (r"\boldsymbol{\xi}", "𝝃"),
        (r"\bm\mu", "𝝁"),
        (r"\mathbf{w}", "𝐰"),
        (r"\mathcal{D}", "𝒟"),
        (r"\mathcal{L}", "ℒ"),
        (r"\mathbb{R}", "ℝ"),
        (r"\mathbf{1}", "𝟏"),
        (r"\mathrm{SGN}", "SGN"),
        (r"\boldsymbol{\Sigma}", "𝜮"),
    ],
)
def test_styled_letters_become_code_points(latex, letters):
    made = mathml.formula(latex)
    assert letters in made
    assert "mathvariant" not in made


def test_no_backslash_or_mathvariant_is_left():
    record = records.make(3, 1, 12)
    record["verdicts"][2] |= {"reason": r"the tangent has slope \frac{\sqrt{2}}{\sqrt{\pi}}; \lost{x}", "steps": []}
    seen = without_scripts(reports.render(record))
    assert "mathvariant" not in seen
    maths = re.findall(r"<math.*?</math>", seen, re.S)
    assert maths
    assert not [m for m in maths if "\\" in m]
    assert r"<code>\lost{x}</code>" in seen


def test_plain_indices():
    assert mathml.plain("T_4^- of σ_ps") == "<i>T</i><sub>4</sub><sup>−</sup> of <i>σ</i><sub>p</sub>s"
    assert mathml.plain("query_noise") == "query_noise"
    assert mathml.plain("s^{-1/2} < 2") == "s<sup>−1/2</sup> &lt; 2"


@pytest.mark.parametrize(
    ("verdict", "declared", "category"),
    [
        ("SUPPORTED", "SUPPORTED", "holds"),
        ("PROVED", None, "holds"),
        ("SUPPORTED", "REFUTED", "unexpected"),
        ("REFUTED", "REFUTED", "declared"),
        ("REFUTED", "SUPPORTED", "unexpected"),
        ("REFUTED", None, "failing"),
        ("INCONCLUSIVE", "SUPPORTED", "undecided"),
        ("VACUOUS", "VACUOUS", "undecided"),
        ("NUMERIC", "SUPPORTED", "unexpected"),
        ("ERROR", None, "unexpected"),
        ("NOT RUN", "SUPPORTED", "untested"),
    ],
)
def test_categories(verdict, declared, category):
    expected = None if declared is None else {"verdict": declared, "reason": ""}
    assert model.category({"verdict": verdict, "expected": expected}) == category


def test_counts_add_up_to_the_claims():
    claims = model.claims_of(RECORD)
    assert sum(model.tally(claims).values()) == len(claims) == 12
    assert f"{model.tally(claims)['holds']} of 12 claims hold" in PAGE


def test_labels_of_one_object_share_a_card():
    record = records.make(5, 1, 12)
    first, second = record["run"]["claims"][3], copy.deepcopy(record["run"]["claims"][3])
    first["same_as"], second["id"], second["same_as"] = ["S.3"], "S.3", ["E.3"]
    record["run"]["claims"].append(second)
    record["verdicts"] += [r | {"id": "S.3"} for r in record["verdicts"] if r["id"] == "E.3"]
    page = reports.render(record)
    assert page.count("<tr data-kind=") == 5
    assert 'id="claim-S.3"' in page


def test_a_record_with_rows_only_still_renders():
    bare = {"run": {"seeds": 3, "root_seed": 0, "fingerprint": ""}, "verdicts": [r for r in RECORD["verdicts"] if r["id"] == "E.3"]}
    assert "E.3" in reports.render(bare)


def test_history_is_bounded_extracted_and_compared():
    runs = [records.make(6, 1, 24, key) for key in range(25)]
    page = reports.render(runs[-1], previous=runs[:-1])
    kept = reports.extract(page)
    assert kept == [reports.summarise(r) for r in runs[-history.MOST :]]
    assert reports.render(runs[-1], previous=kept) == page
    assert reports.extract("<p>no report</p>") == []


def test_diff_finds_what_changed():
    old = records.make(8, 1, 60)
    new = copy.deepcopy(old)
    rows = {r["id"]: r for r in new["verdicts"]}
    was = {r["id"]: r for r in old["verdicts"]}
    was["E.2"]["verdict"], rows["E.2"]["verdict"] = "SUPPORTED", "REFUTED"
    was["E.3"]["verdict"], rows["E.3"]["verdict"] = "REFUTED", "SUPPORTED"
    was["E.4"]["verdict"], rows["E.4"]["verdict"] = "SUPPORTED", "VACUOUS"
    rows["E.5"]["margins"] = [m + 5 for m in rows["E.5"]["margins"]]
    new["run"]["claims"][6]["statement"] = "another"
    del new["run"]["claims"][7]
    changes = reports.diff(old, new)
    assert [x[:2] for x in changes.failing] == [("E.2", "fig1")]
    assert [x[:2] for x in changes.holding] == [("E.3", "fig1")]
    assert [x[:2] for x in changes.other] == [("E.4", "fig1")]
    assert [x[:2] for x in changes.moved] == [("E.5", "fig1")]
    assert (changes.redefined, changes.added, changes.removed) == (["E.6"], [], ["E.7"])
    assert not reports.diff(old, copy.deepcopy(old)).any


def test_median_interval_covers_as_stated():
    # Ranks k and n+1-k with the largest k such that P(Bin(n, 1/2) < k) <= 0.5 %: for n = 24 that is k = 6 (P = 0.0033; k = 7: 0.0113).
    assert model.median_interval([float(x) for x in range(1, 25)]) == (6.0, 19.0)
    assert model.median_interval([1.0] * 7) is None


def test_size_of_the_full_catalogue_with_its_history():
    small = [reports.summarise(records.make(105, 3, 9, key)) for key in range(history.MOST - 1)]
    page = reports.render(records.make(105, 3, 200), previous=small, extras=records.extras())
    assert len(reports.extract(page)) == history.MOST
    assert len(page.encode()) <= 5_000_000


@pytest.mark.parametrize(
    ("x", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.30000000004, "0.3"),
        (-89.107, "−89.1"),
        (9.9999e-10, "1·10⁻⁹"),
        (1.5e7, "1.5·10⁷"),
        (float("inf"), "∞"),
    ],
)
def test_numbers(x, shown):
    assert charts.number(x) == shown


def test_ticks_cover_and_round():
    assert charts.nice_ticks(0, 1) == [0, 0.25, 0.5, 0.75, 1]
    assert charts.log_ticks(1e-3, 10)[0] == [1e-3, 1e-2, 1e-1, 1, 10]
    assert charts.log_ticks(2, 8)[0] == [2, 5]


@pytest.mark.parametrize("values", [[0.1, 0.5], [-3, 2], [-1000, -0.1, 0.2], [0.0], [-5, -4], [1e-9] * 9])
def test_margin_scale_is_monotone_and_shows_zero(values):
    scale = charts.Margins(values, 0, 100)
    assert 0 in scale.ticks
    places = [scale(v) for v in sorted({*values, 0.0})]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 100


def test_histogram_counts_every_seed_and_separates_violations():
    svg = charts.histogram([-2.0, -1.0, 0.0, 0.1, 2.0, 3.0, 5.0], "slack ratio")
    assert "7 margins; 3 at or below zero" in svg
    assert svg.count('class="bar bad"') >= 2
    assert charts.histogram([None, 1.0], "x") == ""


def test_curve_marks_the_named_times_inside():
    svg = charts.curve_chart(RECORD["verdicts"][2]["curve"], {"T_1": 2e-4, "T_3": 4e-3, "T": 99.0, "T_4_minus": None}, "slack ratio")
    assert svg.count('class="stage"') == 2
    assert "T₁" in svg
    assert "τ = ηt" in svg


def test_fit_chart_shows_every_rung():
    svg = fit_chart([(17, 0.5, 0.45), (33, 0.26, 0.23), (65, 0.13, 0.12)], {"estimate": -1.0})
    assert svg.count('class="point"') == 3
    assert fit_chart([(17, 0.5, 0.45)], {}) == ""


def test_layout_keeps_order_and_spacing():
    parents = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c", "a"], "e": ["d"]}
    made = layout.layered(parents, dict.fromkeys(parents, 40.0))
    assert layout.reduced(parents) == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")}
    assert made.depth == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 3}
    assert all(made.nodes[p][0] < made.nodes[c][0] for p, c in made.edges)
    assert abs(made.nodes["b"][1] - made.nodes["c"][1]) >= layout.NODE_HEIGHT
    assert made == layout.layered(parents, dict.fromkeys(parents, 40.0))


def test_health_lists_the_lie_that_passed():
    assert "lie not caught: doubled" in PAGE
    assert "<strong>Fewer than 88 seeds" in PAGE
