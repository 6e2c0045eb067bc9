"""Fig.5.value: the value signal turns on the side of the noise's part along the signal."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reports import figures_value as figure
from reports.figures import FIGURES
from verify.regime import Regime

SMALL = figure.REGIME.change(d=200, s=199, sigma_p=0.4 * (40 / 199) ** 0.5, eta=4e-4, horizon=0.11)


def planted(lean: float, value: list[float], error: float) -> figure.Outcome:
    return figure.Outcome(lean, np.arange(len(value)) / 100, np.array(value), 0.01, error)


def test_the_side_of_the_noise_decides() -> None:
    # Were turning independent of the side, a fair coin would agree in 13 of 14 trials or more with probability 15/2^14 < .001.
    found = [figure.outcome(SMALL, trial) for trial in range(14)]
    assert sum(o.turned == (o.lean < 0) for o in found) >= 13
    assert 3 <= sum(o.turned for o in found) <= 11
    assert all(o.left > 0.06 for o in found if o.turned)


def test_no_reversal_where_the_noise_has_no_part_along_the_signal() -> None:
    r: Regime = SMALL.change(on_signal=0.0, d=201, s=199)
    o = figure.outcome(r, 0)
    assert o.lean == 0
    assert not o.turned
    assert o.error == 0


def test_counts_and_their_intervals(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    falls, grows = planted(-0.3, [0, 0.2, -0.1], 1.0), planted(0.3, [0, 0.2, 0.3], 0.0)
    table = figure.rows([falls, falls, planted(-0.1, [0, 0.2, 0.3], 0.0), grows])
    # Exact 99 % intervals: 2 of 3 and 0 of 1, lower ends solve 3p^2 - 2p^3 = .005 and upper end 1 - .005.
    assert table == [
        ["Σ yξ_1 < 0", "2 of 3", "[0.041, 0.998]", "100 (100 to 100)", "2 of 3"],
        ["Σ yξ_1 > 0", "0 of 1", "[0.000, 0.995]", "never", "0 of 1"],
    ]
    monkeypatch.setattr(figure, "execute", lambda tasks, jobs, done, work: [done(k, falls if k % 2 else grows) for k in tasks])
    paths, text = FIGURES["Fig.5.value"](tmp_path)
    assert "20 of 20" in text
    assert paths[0].stat().st_size > 5000
    assert json.loads((tmp_path / "figures.json").read_text())[0]["name"] == "Fig.5.value"
