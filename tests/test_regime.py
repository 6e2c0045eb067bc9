"""Regimes: presets, TOML both ways, --set, the content hash, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.errors import RegimeError
from verify.regime import SUITE_REGIMES, Regime, get, load, parse_setting, preset_names, regime_from
from verify.times import formula_times


@pytest.mark.parametrize("name", preset_names())
def test_presets_survive_toml(name: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(get(name).to_toml())
    assert load(path) == get(name)
    assert load(path).hash == get(name).hash


def test_ladder_is_what_claims_md_says() -> None:
    r = get("ladder-129")
    assert (r.n, r.dim, r.s, r.sigma_p, r.m_k) == (129, 129**8, 129**2, 129.0, 64)
    assert r.sigma_p_s == 129**3
    assert r.sigma_0 == pytest.approx(0.01 / (129**3 * 8))
    assert get("ladder-64-mk16").m_k == 16
    assert set(SUITE_REGIMES) <= set(preset_names())


def test_the_dimension_is_an_exact_integer() -> None:
    r = get("ladder-1025")
    assert r.dim == 1025**8 > 2**63
    assert regime_from(r.to_dict(), "again") == r


def test_fig1_reads_its_windows() -> None:
    times = formula_times(get("fig1"))
    assert [round(times[t] / 1e-4) for t in ("T_1", "T_2_SGN", "T_2", "T_3")] == [2, 10, 10, 40]
    assert round(times["T_4_minus_predicted"] / 1e-4) == 141
    assert round(times["T"] / 1e-4) == 737
    assert get("fig1").steps == 2000


@given(n=st.integers(1, 60), note=st.text(max_size=5))
def test_hash_sees_parameters_and_nothing_else(n: int, note: str) -> None:
    base = get("fig1")
    changed = base.change(n=n)
    assert (changed.hash == base.hash) == (n == 20)
    assert base.change(note=note, name="other").hash == base.hash


def test_a_change_shows_in_the_name() -> None:
    assert get("fig1").change(eta=2e-4, n=10).name == "fig1[eta=0.0002,n=10]"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "n*s > d-1": ({"n": 100}, r"n\*s = 4000 noise coordinates do not fit d-1 = 3999"),
    "eta=-1": ({"eta": -1.0}, "eta=-1.0 must be a finite number that is not negative"),
    "eta=nan": ({"eta": float("nan")}, "eta=nan must be a finite number"),
    "eta=0, reduced": ({"eta": 0.0}, "eta > 0|eta=0"),
    "s=0": ({"s": 0}, "s=0 must be a whole number from 1"),
    "sigma_p=inf": ({"sigma_p": float("inf")}, "sigma_p=inf must be a positive finite number"),
    "wrong type": ({"n": "many"}, r"Expected `int`, got `str` - at `\$.n`"),
    "a float for n": ({"n": 2.5}, "Expected `int`"),
    "unknown key": ({"sigma": 1.0}, "unknown field `sigma`; the keys are name, n, d"),
    "unknown simulator": ({"simulator": "magic"}, "Invalid enum value 'magic'"),
    "too many pairs": ({"m_k": 10**7}, "pairs per trajectory do not fit"),
    "reading": ({"readings": {"T_1": -2.0}}, "every reading must be a time in steps"),
    "L=1": ({"L": 1}, "L=1 must be at least 2"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    fields, message = REFUSED[what]
    with pytest.raises(RegimeError, match=message):
        get("fig1").change(**fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n = = 3", "is not TOML"),
        ("n = 3", "missing required field"),
        ('base = "nowhere"', "unknown regime 'nowhere'"),
        ('base = "fig1"\nbogus = 1', "unknown field `bogus`"),
    ],
)
def test_bad_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(RegimeError, match=message):
        get(str(path))


def test_a_file_may_build_on_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "fig1"\neta = 2e-4\n')
    assert get(str(path)) == get("fig1").change(eta=2e-4, name="mine")


def test_missing_file() -> None:
    with pytest.raises(RegimeError, match=r"cannot read nowhere/r\.toml"):
        get("nowhere/r.toml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n=24", ("n", 24)),
        ("n=2e1", ("n", 20)),
        ("eta=1", ("eta", 1.0)),
        ("eta=nan", ("eta", pytest.approx(float("nan"), nan_ok=True))),
        ("simulator=flow", ("simulator", "flow")),
        ('simulator="flow"', ("simulator", "flow")),
        ("s=1e9", ("s", 10**9)),
        ("readings={T_1 = 3}", ("readings", {"T_1": 3})),
        ("d=152587890625000000000000", ("d", 152587890625000000000000)),
    ],
)
def test_settings(text: str, value: tuple[str, Any]) -> None:
    assert parse_setting(text) == value


@pytest.mark.parametrize("text", ["n", "bogus=1", "=3"])
def test_bad_settings(text: str) -> None:
    with pytest.raises(RegimeError, match="want key=value with a key of name, n, d"):
        parse_setting(text)


def test_set_readings_reaches_the_times() -> None:
    r: Regime = get("fig1").change(readings={"T_1": 3})
    assert formula_times(r)["T_1"] == pytest.approx(3e-4)


def test_readings_have_known_names_and_sizes(tmp_path: Path) -> None:
    for readings, message in (
        ({"foo": 3.0}, "readings of foo"),
        ({"T_1": 1e300}, "from 0 to 1e12"),
        ({"T_1": float("nan")}, "from 0 to 1e12"),
    ):
        with pytest.raises(RegimeError, match=message):
            get("fig1").change(readings=readings)


def test_a_file_that_starts_from_itself(tmp_path: Path) -> None:
    path = tmp_path / "loop.toml"
    path.write_text(f'base = "{path}"', encoding="utf-8")
    with pytest.raises(RegimeError, match="starts from itself"):
        load(path)


def test_too_many_steps_are_refused_when_they_are_counted() -> None:
    with pytest.raises(RegimeError, match="exceed the limit"):
        _ = get("fig1").change(eta=1e-300).steps
