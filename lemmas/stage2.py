"""Stage II: query and key noise align their signs (Lemma 4.2, Appendix E.5)."""

from __future__ import annotations

from verify import Check, Trajectory, claim, everywhere, same_sign, times


@claim(
    "4.2",
    "Query and key noise align their signs",
    source="Lemma 4.2, Appendix E.5",
    conditions=["sparsity", "noise_strength", "learning_rate"],
    depends_on=["E.1", "E.2", "E.3"],
    units="min(|Q|,|K|) in ηl_i, signed by agreement",
)
def signs_align(tr: Trajectory) -> Check:
    r"""At $T_2^{\mathrm{SGN}}$, $\operatorname{sgn}\langle w_{Q,s}, y_i\xi_i\rangle = \operatorname{sgn}\langle w_{K,s}, y_i\xi_i\rangle$ for all $s$, $i$.

    Conditions: sparsity and noise strength make the noise outrun the signal; a small learning rate excludes the two-cycle R.4.
    Measured: the smaller of |Q| and |K| in units of ηl_i, signed + where the signs agree; the margin is the worst pair's, > 0 holds.
    Made finite: $T_2^{\mathrm{SGN}}$ with $C_1=10$, $\delta=0.1$ (by this project).
    Source: Lemma 4.2, Appendix E.5.
    """
    at = tr.at(times.T2_SGN)
    margin = same_sign(tr, at.tau, ("query_noise", at.query_noise), ("key_noise", at.key_noise))
    return everywhere(tr.regime.judged, margin, tau=at.tau)


@signs_align.control("key noise mirrored")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(key_noise=-tr.key_noise)
