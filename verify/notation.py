"""The symbol table: code name, LaTeX, shape, meaning and place in the paper; one source for documentation, glossary and axis labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """One symbol.

    `code` is the name in code, `latex` and `text` (plain Unicode, for axes and terminals) are two spellings of the symbol,
    `shape` is "" for a number, `source` says where the paper introduces it. `group` orders the glossary.
    """

    code: str
    latex: str
    text: str
    shape: str
    meaning: str
    source: str
    group: str


GROUPS = ("data and model", "inner products", "softmax and loss", "time", "sets and counts", "constants chosen by this project")

_DATA, _INNER, _SOFTMAX, _TIME, _SETS, _OURS = GROUPS

SYMBOLS: tuple[Symbol, ...] = (
    Symbol("n", "n", "n", "", "number of training samples", "Definition 2.1", _DATA),
    Symbol("d", "d", "d", "", "dimension of a patch", "Definition 2.1", _DATA),
    Symbol("s", "s", "s", "", "coordinates that a noise patch fills (sparsity)", "Definition 2.1", _DATA),
    Symbol("mu", r"\mu", "μ", "(d,)", "signal patch, the first unit vector", "Definition 2.1", _DATA),
    Symbol("xi", r"\xi_i", "ξᵢ", "(d,)", "noise patch of sample i", "Definition 2.1", _DATA),
    Symbol("y", r"y_i", "yᵢ", "", "label of sample i, plus or minus one with equal probability", "Definition 2.1", _DATA),
    Symbol("sigma_p", r"\sigma_p", "σₚ", "", "standard deviation of a noise coordinate", "Definition 2.1", _DATA),
    Symbol(
        "l1", r"l_i=\|\xi_i\|_1", "lᵢ", "(n,)", "1-norm of the noise: what one step adds to an inner product, per η", "Section 4", _DATA
    ),
    Symbol("mean_l1", r"\bar l=\sqrt{2/\pi}\,\sigma_ps", "l̄", "", "mean of the 1-norms", "Appendix C", _DATA),
    Symbol("L", "L", "L", "", "patches per sample (2 in the main text)", "Eq. (1), Appendix F", _DATA),
    Symbol("m_k", "m_k", "mₖ", "", "rows (neurons) of the query and key matrices", "Eq. (1)", _DATA),
    Symbol("m_v", "m_v", "mᵥ", "", "rows of each value matrix", "Eq. (1)", _DATA),
    Symbol("sigma_0", r"\sigma_0", "σ₀", "", "standard deviation of an initial weight", "Section 2", _DATA),
    Symbol("eta", r"\eta", "η", "", "step size of SignGD", "Section 2", _DATA),
    Symbol("v", "v", "v", "(d,)", "mean value weight of class +1 minus that of class −1", "Section 4", _DATA),
    Symbol(
        "query_noise",
        r"Q_{s,i}=\langle w_{Q,s},y_i\xi_i\rangle",
        "Q",
        "(m_k, n)",
        "query noise of neuron s and sample i",
        "Section 4",
        _INNER,
    ),
    Symbol(
        "key_noise", r"K_{s,i}=\langle w_{K,s},y_i\xi_i\rangle", "K", "(m_k, n)", "key noise of neuron s and sample i", "Section 4", _INNER
    ),
    Symbol("query_signal", r"q_s=\langle w_{Q,s},\mu\rangle", "q", "(m_k,)", "query signal of neuron s", "Section 4", _INNER),
    Symbol("key_signal", r"k_s=\langle w_{K,s},\mu\rangle", "k", "(m_k,)", "key signal of neuron s", "Section 4", _INNER),
    Symbol("value_noise", r"V_i=\langle v,y_i\xi_i\rangle", "Vᵢ", "(n,)", "mean value noise of sample i", "Section 4", _INNER),
    Symbol("value_signal", r"V_\mu=\langle v,\mu\rangle", "V_μ", "", "mean value signal", "Section 4", _INNER),
    Symbol("softmax_signal", r"s_{i,11}", "s₁₁", "(n,)", "attention of the signal patch to itself", "Eq. (1)", _SOFTMAX),
    Symbol("softmax_signal_noise", r"s_{i,12}", "s₁₂", "(n,)", "attention of the signal patch to the noise patch", "Eq. (1)", _SOFTMAX),
    Symbol("softmax_noise_signal", r"s_{i,21}", "s₂₁", "(n,)", "attention of the noise patch to the signal patch", "Eq. (1)", _SOFTMAX),
    Symbol("softmax_noise", r"s_{i,22}", "s₂₂", "(n,)", "attention of the noise patch to itself", "Eq. (1)", _SOFTMAX),
    Symbol("gap_signal", r"z_{11}-z_{i,12}", "z₁₁ − z₁₂", "(n,)", "logit gap of the signal row", "Eq. (1)", _SOFTMAX),
    Symbol("gap_noise", r"z_{i,21}-z_{i,22}", "z₂₁ − z₂₂", "(n,)", "logit gap of the noise row", "Eq. (1)", _SOFTMAX),
    Symbol("loss_derivative", r"g_i=1/(1+e^{y_if_i})", "gᵢ", "(n,)", "absolute derivative of the logistic loss", "Section 2", _SOFTMAX),
    Symbol("loss", "L_S", "L_S", "", "training loss", "Section 2", _SOFTMAX),
    Symbol("test_loss", r"L_{\mathcal D}", "L_D", "", "loss on fresh samples", "Section 2", _SOFTMAX),
    Symbol("tau", r"\tau=\eta t", "τ = ηt", "", "time: step size times number of steps", "Appendix E", _TIME),
    Symbol("T_1", "T_1", "T₁", "", "value noise has become linear; end of Stage I", "Lemma 4.1", _TIME),
    Symbol("T_2_SGN", r"T_2^{\mathrm{SGN}}", "T₂ˢᴳᴺ", "", "query and key noise agree in sign", "Lemma 4.2", _TIME),
    Symbol("T_2", "T_2", "T₂", "", "query and key noise have become linear; end of Stage II", "Lemma 4.3", _TIME),
    Symbol("T_3", "T_3", "T₃", "", "query and key signals have become linear; end of Stage III", "Lemma 4.4", _TIME),
    Symbol("T_4_minus", "T_4^-", "T₄⁻", "", "noise stops dominating the key gradient (measured)", "Lemma 4.5, Eq. (29)", _TIME),
    Symbol("T_4_minus_predicted", r"T_4^-\,\text{predicted}", "T₄⁻ predicted", "", "closed form of the same time", "Lemma 4.5", _TIME),
    Symbol("T_4_plus", "T_4^+", "T₄⁺", "", "signal begins to dominate the key gradient (measured)", "Eq. (42)", _TIME),
    Symbol("T_4", "T_4", "T₄", "", "all signs are aligned; end of Stage IV", "Lemma 4.8", _TIME),
    Symbol("T", "T", "T", "", "training loss is at most ε", "Theorem 3.2", _TIME),
    Symbol("T_attn", r"T_{\mathrm{attn}}", "T_attn", "", "both softmax rows have left one half", "Theorem 3.2", _TIME),
    Symbol(
        "noise_dominates_until",
        r"T_{4,s}^{(30)}",
        "T₄,ₛ⁽³⁰⁾",
        "(m_k,)",
        "the same as T₄⁻ for the key signal of neuron s",
        "Eq. (30)",
        _TIME,
    ),
    Symbol("J", r"J_{s,\pm}", "J", "", "samples whose query noise at T₂ is positive, negative", "Lemma 4.3", _SETS),
    Symbol("D_s", r"D_s=\big||J_{s,+}|-|J_{s,-}|\big|", "Dₛ", "(m_k,)", "majority of the vote of neuron s", "Lemma 4.3", _SETS),
    Symbol("alpha_i", r"\alpha_i", "αᵢ", "(n,)", "share of neurons aligned with the query signal at T₄⁻", "Lemma E.27", _SETS),
    Symbol("G", "G", "G", "", "event: every αᵢ is at least .27 and no query signal lags by more than a tenth", "claims.md", _SETS),
    Symbol("S_KQ", r"S_{K\pm,Q\pm}", "S", "", "pairs (s, i) by the signs of key and query noise", "Appendix C", _SETS),
    Symbol("delta", r"\delta", "δ", "", "failure probability that a statement may have", "Condition 3.1", _OURS),
    Symbol("p", "p", "p", "", "finite reading of o(1)", "this project", _OURS),
    Symbol("theta_c", r"\theta_c", "θ_c", "", "small constant of Stage IV", "Lemma 4.6", _OURS),
    Symbol("alpha", r"\alpha", "α", "", "one-sided error probability of a verdict", "this project", _OURS),
    Symbol("C_1", "C_1", "C₁", "", "constant of T₁", "this project", _OURS),
    Symbol("C_2", "C_2", "C₂", "", "constant of T₂", "this project", _OURS),
    Symbol("C_3", "C_3", "C₃", "", "constant of T₃", "this project", _OURS),
    Symbol("C_attn", r"C_{\mathrm{attn}}", "C_attn", "", "constant of T_attn", "this project", _OURS),
)
"""Every symbol, in the order of the glossary."""

_BY_CODE = {s.code: s for s in SYMBOLS}


def symbol(code: str) -> Symbol:
    """The symbol with this code name. Raises KeyError if there is none."""
    return _BY_CODE[code]


def text(code: str) -> str:
    """Plain Unicode spelling of a code name; an unknown name is returned as it is."""
    return _BY_CODE[code].text if code in _BY_CODE else code


def by_group() -> Iterator[tuple[str, list[Symbol]]]:
    """Groups in order, each with its symbols."""
    for group in GROUPS:
        yield group, [s for s in SYMBOLS if s.group == group]
