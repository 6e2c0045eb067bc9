"""Statistics behind the verdicts: exact binomial bounds, exact probabilities, exponents with intervals."""

from verify.stats import exact
from verify.stats.binomial import decide, lower_bound, trials_for_support, trials_to_decide, upper_bound
from verify.stats.exponents import fit_exponent

__all__ = ["decide", "exact", "fit_exponent", "lower_bound", "trials_for_support", "trials_to_decide", "upper_bound"]
