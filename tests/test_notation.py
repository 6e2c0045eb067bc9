"""The symbol table is the one source of names: complete, free of clashes, and every formula renders."""

from __future__ import annotations

import dataclasses

import pytest

from reports.mathml import formula
from verify import notation
from verify.constants import OURS
from verify.regime import Regime, get
from verify.simulate import Trajectory
from verify.simulate.trajectory import QUANTITIES
from verify.times import T4, T4_MINUS, T4_PLUS, formula_times

CODES = [s.code for s in notation.SYMBOLS]


def test_code_names_and_spellings_are_unique():
    assert len(set(CODES)) == len(CODES)
    latex = [s.latex for s in notation.SYMBOLS]
    assert len(set(latex)) == len(latex)


def test_every_quantity_of_a_trajectory_is_listed_with_its_shape():
    shapes = {
        "query_noise": "(m_k, n)",
        "key_noise": "(m_k, n)",
        "query_signal": "(m_k,)",
        "key_signal": "(m_k,)",
        "value_noise": "(n,)",
        "value_signal": "",
    }
    assert {q: notation.symbol(q).shape for q in QUANTITIES} == shapes
    fields = {f.name for f in dataclasses.fields(Trajectory)}
    assert {"gap_signal", "gap_noise", "noise_dominates_until", "tau"} <= fields & set(CODES)


def test_every_parameter_of_a_regime_is_listed():
    assert {"n", "d", "s", "sigma_p", "m_k", "m_v", "sigma_0", "eta", "L"} <= set(CODES) & set(Regime.__struct_fields__)


def test_every_named_time_is_listed():
    assert {*formula_times(get("fig1")), T4_MINUS, T4_PLUS, T4} <= set(CODES)


def test_every_constant_of_ours_is_listed():
    texts = {s.text for s in notation.SYMBOLS} | {s.code for s in notation.SYMBOLS}
    assert set(OURS) <= texts | {"C_1", "C_2", "C_3"}


@pytest.mark.parametrize("symbol", notation.SYMBOLS, ids=CODES)
def test_every_formula_renders(symbol):
    made = formula(symbol.latex, symbol.code)
    assert made.startswith("<math>")
    assert "\\" not in made
    assert symbol.group in notation.GROUPS
    assert symbol.meaning
    assert symbol.source


def test_groups_keep_the_table_whole():
    assert [s for _, members in notation.by_group() for s in members] == list(notation.SYMBOLS)


def test_unknown_code_is_shown_as_it_is():
    assert notation.text("no such name") == "no such name"
    with pytest.raises(KeyError):
        notation.symbol("no such name")
