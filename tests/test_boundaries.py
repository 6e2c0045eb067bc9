"""The necessity matrix and the probes on the page: every cell with its points, earlier shapes, the surprises, and what breaks a claim."""

from __future__ import annotations

import re

import records

import reports
from reports import boundaries, matrix

LABELS = ["E.3", "E.4", "E.5", "E.11"]
MATRIX = records.matrix(LABELS)
EARLIER = {
    "base": "ladder-33",
    "cells": [
        {"claim": "E.3", "clause": "sparsity", "result": "needed", "factor": 12.0},
        {"claim": "E.3", "clause": "dimension", "result": "not needed", "factor": 100.0},
        {"claim": "E.4", "clause": "sparsity", "result": "undecided", "factor": None},
    ],
}


def page(made: dict) -> str:
    """A report of twelve claims with this matrix."""
    return reports.render(records.make(), extras={"matrix": made})


def test_every_cell_opens_its_points():
    html = page(MATRIX)
    for cell in MATRIX["cells"]:
        anchor = f"need-{cell['claim']}-{cell['part']}"
        assert f'href="#{anchor}"' in html
        own = html.partition(f'id="{anchor}"')[2].partition('<div class="cellinfo"')[0]
        assert own.count("<tr><td>") == len(cell["points"])
        assert cell["command"] in own
        for point in cell["points"]:
            assert f"<td>{matrix.times(point['factor'])}</td>" in own
            assert point["change"] in own
            assert f"{point['violations']} of {point['n']}" in own
    assert html.count('class="m m-') == len(MATRIX["cells"]) + len({c["result"] for c in MATRIX["cells"]})  # the cells and the key


def test_declared_clauses_are_marked_in_words_too():
    html = page(MATRIX)
    assert html.count(", declared</span>") == sum(c["declared"] for c in MATRIX["cells"])


def test_surprises_come_with_interval_and_command():
    finding = MATRIX["findings"][0]
    own = page(MATRIX).partition('class="findings"')[2].partition("</ol>")[0]
    assert finding["kind"] in own
    assert "Violation rate in [0.158, 1]." in own
    assert f'<code class="cmd">{finding["command"]}</code>' in own


def test_the_card_says_what_the_claim_needs():
    shown = matrix.view(EARLIER)
    assert {k: [c["part"] for c in v] for k, v in matrix.of_claim(shown, ["E.3"]).items()} == {
        "needed": ["sparsity"],
        "not needed": ["dimension"],
    }
    html = page(EARLIER)
    card = html.partition('id="claim-E.3"')[2].partition("</details>")[0]
    words = re.sub("<.*?>", "", card.partition("Broken alone")[2].partition("</dd>")[0])
    assert words == "needs: sparsity ×\u202f12does not need: dimension up to ×\u202f100"
    assert matrix.of_claim(shown, ["E.9"]) == {}


def test_the_most_fragile_clause_comes_first():
    cells = [
        {"claim": "E.3", "part": "sparsity", "clause": "C31.1", "result": "needed", "factor": 64.0},
        {"claim": "E.3", "part": "noise_strength", "clause": "C31.2", "result": "needed", "factor": 2.0},
    ]
    needs = matrix.of_claim(matrix.view({"cells": cells}), ["E.3"])
    assert matrix.what_breaks(needs) == "σₚ\u00a0×\u202f2, s\u00a0×\u202f64"
    assert matrix.what_breaks({}) == ""


def test_no_matrix_no_section():
    assert matrix.view(None) is None
    assert matrix.view({"cells": []}) is None
    html = reports.render(records.make())
    assert 'id="necessity"' not in html
    assert "What breaks it" not in html


def test_a_matrix_may_speak_of_claims_that_the_record_lacks_and_of_unknown_results():
    html = page({"cells": [{"claim": "<b>X.1", "part": "<i>", "clause": "", "result": "odd<u>", "points": [{"factor": 2.0}]}]})
    assert "<b>X.1" not in html
    assert "odd<u>" not in html
    assert "odd&lt;u&gt;" in html
    assert 'href="#claim-~3cb~3eX.1"' not in html


def test_a_strip_shows_shares_and_the_boundary():
    strip, plane = records.extras()["probes"]
    drawn = boundaries.probe_chart(strip)
    assert drawn.count('class="mark') == 7
    assert "allowed: δ = 0.1" in drawn
    assert "C31.2 kept exactly" in drawn
    assert boundaries.probe_chart(plane).count('class="mark') == 25
    assert boundaries.probe_chart({"verdicts": strip["verdicts"][:1]}) == ""


def test_the_shading_of_a_map_follows_the_nearest_point():
    points = [
        {"values": {"s": x, "m_k": 1.0 + x}, "verdict": v, "n": 5, "violations": 5} for x, v in ((0.0, "REFUTED"), (1.0, "SUPPORTED"))
    ]
    drawn = boundaries.probe_chart({"verdicts": points})
    areas = {
        kind: sum(float(w) * float(h) for w, h in re.findall(rf'class="t-{kind}"[^>]*width="(.*?)" height="(.*?)"', drawn))
        for kind in ("fail", "hold")
    }
    # Two points on the diagonal halve the rectangle.
    assert abs(areas["fail"] / (areas["fail"] + areas["hold"]) - 0.5) < 0.02


def test_the_command_of_a_probe():
    strip, plane = records.extras()["probes"]
    assert boundaries.command({"command": "verify probe X", "verdicts": []}) == "verify probe X"
    assert boundaries.command(strip) == "verify probe E.3 --vary sigma_p=0.01:0.64:log --regime fig1"
    assert boundaries.command(plane) == ""  # the ends of a Sobol set are not judged
    assert boundaries.sentence(strip) == "Holds down to σₚ = 0.08."
