"""Eq. (1): the module against the formula written out head by head, for any number of patches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from verify.model import Transformer


def instance(L: int, seed: int = 0) -> tuple[Transformer, torch.Tensor, torch.Tensor]:
    """A random model (m_k = 3, m_v = 4, d = 6) and 5 random samples."""
    g = torch.Generator().manual_seed(seed)
    rand = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    return Transformer(rand(3, 6), rand(3, 6), rand(2, 4, 6)), rand(5, L, 6), torch.sign(rand(5))


@pytest.mark.parametrize("L", [2, 3, 5])
def test_forward_is_equation_1(L: int) -> None:
    model, x, y = instance(L)
    W_Q, W_K, W_V = (w.detach().numpy() for w in (model.W_Q, model.W_K, model.W_V))
    expected = []
    for X in x.numpy().transpose(0, 2, 1):  # d x L, as in the paper
        F = []
        for head in W_V:
            total = 0.0
            for l in range(L):
                z = X.T @ W_K.T @ W_Q @ X[:, l]
                total += (np.ones(4) @ head @ X @ (np.exp(z) / np.exp(z).sum())) / 4
            F.append(total)
        expected.append(F[0] - F[1])
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-12)
    loss = np.mean([math.log1p(math.exp(-b * f)) for b, f in zip(y.tolist(), expected, strict=True)])
    assert math.isclose(model.loss(x, y).item(), loss, rel_tol=1e-12)


@pytest.mark.parametrize("L", [2, 4])
def test_output_is_odd_in_the_sample(L: int) -> None:
    model, x, _ = instance(L)
    assert torch.equal(model(-x), -model(x))


def test_loss_and_its_gradient_stay_finite_far_out() -> None:
    model, x, y = instance(2)
    far = Transformer(*(1e3 * w.detach() for w in (model.W_Q, model.W_K, model.W_V)))
    loss = far.loss(x, y)
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(torch.isfinite(w.grad).all() for w in far.parameters())  # type: ignore[arg-type]


def test_logits_have_the_query_first() -> None:
    model, x, _ = instance(3)
    z = model.logits(x)[2, 0, 1]
    assert math.isclose(z.item(), ((model.W_Q @ x[2, 0]) @ (model.W_K @ x[2, 1])).item(), rel_tol=1e-12)
