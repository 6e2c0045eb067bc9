"""The catalogue: one module per section of the paper, one object per numbered statement. Importing it registers every claim."""

from lemmas import stage2

__all__ = ["stage2"]
