"""The errors of this package: one base class; each message says what was given, what was wanted, and what to type next."""

from __future__ import annotations


class VerifyError(Exception):
    """Base of every error that a wrong call or a wrong input raises (command-line exit status 2)."""


class RegimeError(VerifyError):
    """A parameter set that does not exist, cannot be read, or describes no data."""


class UnknownClaim(VerifyError):
    """A claim id that is not registered."""


class RecordError(VerifyError):
    """A run record that is missing, unreadable, unwritable, or of another run."""


class WorkerDied(VerifyError):
    """A process of the pool ended without a result: killed, or out of memory."""


class NumericError(VerifyError):
    """A sign of NaN or of an infinite value: stops one trial, never the run.

    Attributes:
        step: update step (discrete) or event count (flow) at which it was met.
        tensor: name of the quantity, as in `verify.notation`.
    """

    def __init__(self, step: int, tensor: str) -> None:
        super().__init__(step, tensor)
        self.step, self.tensor = step, tensor

    def __str__(self) -> str:
        return f"sgn(nan) at step {self.step} in {self.tensor}: the trial is stopped, since a sign of NaN decides nothing"
