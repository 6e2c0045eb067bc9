"""The catalogue: one module per section of the paper, one object per numbered statement. Importing it registers every claim."""

from lemmas import (
    experiments,
    extensions,
    gradients,
    gradients_attention,
    reduction,
    stage1,
    stage2,
    stage2_end,
    stage3,
    stage3_noise,
    stage4,
    stage4_end,
    theorem,
    trends_early,
    trends,
    updates,
)

__all__ = [
    "experiments",
    "extensions",
    "gradients",
    "gradients_attention",
    "reduction",
    "stage1",
    "stage2",
    "stage2_end",
    "stage3",
    "stage3_noise",
    "stage4",
    "stage4_end",
    "theorem",
    "trends_early",
    "trends",
    "updates",
]
