"""The only thresholds of the project. The paper leaves them inside O, Theta, o and "w.h.p."; these values are ours."""

from __future__ import annotations

from typing import Final

DELTA: Final = 0.1
"""Failure probability that a statement of the paper may have."""
P: Final = 0.1
"""Finite reading of o(1)."""
THETA_C: Final = 0.25
"""Small constant of Stage IV: windows [T4-, (2-theta_c)T4-], [(2+theta_c)T4-, (4+3theta_c)T4-]."""
ALPHA: Final = 1e-4
"""One-sided error probability of a verdict."""
C1: Final = 10.0
C2: Final = 10.0
C3: Final = 10.0
"""Constants of T_1, T_2 and T_3."""
C_ATTN: Final = 1.3
"""Constant of T_attn (claims.md, time scales)."""

OURS: Final = {
    "δ": DELTA,
    "p": P,
    "θ_c": THETA_C,
    "α": ALPHA,
    "C_1": C1,
    "C_2": C2,
    "C_3": C3,
    "C_attn": C_ATTN,
}
"""Shown in every record and report as 'constants chosen by this project'."""
