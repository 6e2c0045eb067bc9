"""The catalogue: one module per section of the paper, one object per numbered statement. Importing it registers every claim."""

from lemmas import (
    stage2,
    stage3,
    stage3_noise,
    stage4,
    stage4_end,
    theorem,
)

__all__ = [
    "stage2",
    "stage3",
    "stage3_noise",
    "stage4",
    "stage4_end",
    "theorem",
]
