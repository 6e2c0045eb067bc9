"""Figures 3-5 and 9-11: what is read off a trial, and that a drawing comes with its published reading."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reports import figures_violated as figures
from reports.figures import FIGURES
from verify import Trajectory, get, simulate_trial
from verify.regime import Regime


@pytest.fixture(scope="module")
def tr() -> Trajectory:
    return simulate_trial(get("fig1"), 0, 0)


def test_every_figure_has_a_regime_of_its_kind() -> None:
    assert set(figures.REGIMES) < set(FIGURES)
    kinds = {name: get(regime) for name, (regime, _) in figures.REGIMES.items()}
    assert kinds["Fig.3"].s < 100
    assert not kinds["Fig.3"].disjoint
    assert kinds["Fig.4"].orthogonal
    assert kinds["Fig.5"].s == kinds["Fig.5"].dim - 1
    assert [kinds[f"Fig.{k}"].L for k in (9, 10, 11)] == [3, 5, 10]
    two_norm = lambda r: r.sigma_p * np.sqrt(r.s)  # noqa: E731
    assert two_norm(kinds["Fig.5"]) == pytest.approx(two_norm(get("fig1")), rel=1e-12)


def test_readings_of_planted_values(tr: Trajectory) -> None:
    mirrored = tr.replace(key_noise=-tr.key_noise)
    assert figures.sign_agreement(mirrored, 40) == pytest.approx(1 - figures.sign_agreement(tr, 40))
    assert figures.vote(mirrored, 40) == pytest.approx(1 - figures.vote(tr, 40))
    straight = tr.replace(value_noise=np.outer(tr.tau, np.arange(1.0, 21)))
    assert figures.linearity(straight) == pytest.approx(1)
    steps = tr.tau / tr.regime.eta
    falling = tr.replace(gap_noise=np.where(steps < 100, 0.0, -3.0)[:, None].repeat(20, 1))
    assert figures.decay(falling, "gap_noise") == steps[steps >= 100][0]
    never = tr.replace(gap_noise=np.zeros_like(tr.gap_noise))
    assert np.isnan(figures.decay(never, "gap_noise"))
    assert figures.aligned(tr.replace(query_noise=-tr.query_noise)) < 0.1


def test_figure_1_read_by_the_same_measures(tr: Trajectory) -> None:
    # The readings of fig1 itself (claims.md section 7): agreement .97 at t = 10, s_21 gone long before s_11, all aligned by 2000.
    assert figures.sign_agreement(tr, 10) > 0.9
    assert figures.decay(tr, "gap_noise") < 0.5 * figures.decay(tr, "gap_signal")
    assert figures.aligned(tr) > 0.99


@pytest.mark.parametrize("change", [{}, {"L": 3, "d": 2000}], ids=["two patches", "longer context"])
def test_a_drawing_comes_with_its_published_reading(change: dict, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    r: Regime = get("fig1").change(n=4, m_k=10, horizon=0.03, **change)
    monkeypatch.setattr(figures, "simulated", lambda name, progress: [simulate_trial(r, 0, 0)])
    paths, text = figures.draw("Fig.3", tmp_path)
    assert paths[0].read_text().count("<svg") == 1
    (entry,) = json.loads((tmp_path / "figures.json").read_text())
    assert entry["name"] == "Fig.3"
    assert entry["published"] in text
    assert len(entry["table"]["rows"]) == (8 if r.L == 2 else 5)
