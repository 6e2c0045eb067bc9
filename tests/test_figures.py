"""Figures of the paper: files, readings beside the published ones, equal bytes for equal calls."""

from __future__ import annotations

import json

import pytest

from reports.figures import FIGURES, tab_2


def test_table_2_is_drawn_printed_and_kept_for_the_report(tmp_path) -> None:
    paths, text = tab_2(tmp_path, seeds=6)
    first = paths[0].read_bytes()
    assert b"<svg" in first
    for published in ("486", "481"):
        assert published in text
    kept = json.loads((tmp_path / "figures.json").read_text())
    assert [f["name"] for f in kept] == ["Tab.2"]
    assert len(kept[0]["table"]["rows"]) == 16
    tab_2(tmp_path, seeds=6)
    assert paths[0].read_bytes() == first
    assert len(json.loads((tmp_path / "figures.json").read_text())) == 1


@pytest.mark.parametrize("name", ["Fig.1", "Fig.17", "Fig.18"])
def test_figures_show_the_published_reading_beside_ours(name: str, tmp_path) -> None:
    calls: list[tuple[int, int]] = []
    paths, text = FIGURES[name](tmp_path, lambda done, total: calls.append((done, total)))
    assert paths[0].stat().st_size > 10_000
    assert "near 1/2" in text
    assert calls[-1] == (8, 8)
