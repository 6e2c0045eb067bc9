"""Statistics behind the verdicts: exact binomial bounds, exponents with intervals."""

from verify.stats.binomial import decide, lower_bound, trials_for_support, trials_to_decide, upper_bound
from verify.stats.exponents import fit_exponent

__all__ = ["decide", "fit_exponent", "lower_bound", "trials_for_support", "trials_to_decide", "upper_bound"]
