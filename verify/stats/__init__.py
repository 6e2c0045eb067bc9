"""Statistics behind the verdicts: exact binomial bounds, exponents with intervals."""

from verify.stats.binomial import decide, lower_bound, trials_for_support, trials_to_decide, upper_bound

__all__ = ["decide", "lower_bound", "trials_for_support", "trials_to_decide", "upper_bound"]
