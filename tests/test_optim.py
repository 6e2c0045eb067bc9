"""SignGD, and the closed form of the gradients' signs against autograd: equal at moderate logit gaps, and right where autograd is not."""

from __future__ import annotations

import math

import pytest
import torch

from verify import NumericError, draw
from verify import regime as regimes
from verify.data import draw_data
from verify.model import Transformer
from verify.optim import ClosedForm, SignGD
from verify.simulate.full import complete


def instance(L: int, seed: int, *, dense: bool, scale: float = 0.3) -> tuple[Transformer, torch.Tensor, torch.Tensor]:
    """A random model (m_k = 5, m_v = 3, d = 40) and 4 samples, dense or with 3 non-zero coordinates per patch."""
    g = torch.Generator().manual_seed(seed)
    rand = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    x = rand(4, L, 40)
    if not dense:
        x *= torch.rand(x.shape, generator=g).argsort(-1) < 3
    return Transformer(scale * rand(5, 40), scale * rand(5, 40), rand(2, 3, 40)), x, torch.sign(rand(4))


def closed_signs(model: Transformer, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    closed = ClosedForm(x, y)
    return closed(model, closed.project(model))[0]


def autograd(model: Transformer, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model.loss(x, y).backward()
    return {name: w.grad.clone() for name, w in model.named_parameters() if w.grad is not None}


def test_step_moves_by_lr_against_the_sign_and_rests_at_zero() -> None:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    w.grad = torch.tensor([1e-300, -5.0, 0.0], dtype=torch.float64)
    SignGD([w], lr=0.25).step()
    assert w.tolist() == [0.75, 2.25, 3.0]


def test_step_descends_through_a_closure() -> None:
    w = torch.nn.Parameter(torch.tensor([2.0, -1.0]))
    sgd = SignGD([w], lr=0.5)

    def closure() -> torch.Tensor:
        sgd.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    assert sgd.step(closure).item() == 5.0
    assert w.tolist() == [1.5, -0.5]


def test_nan_gradient_stops_with_step_and_tensor() -> None:
    assert torch.sign(torch.tensor(math.nan)) == 0  # torch would go on
    a, b = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    sgd = SignGD([("first", a), ("second", b)], lr=0.1)
    a.grad, b.grad = torch.ones(3), torch.tensor([1.0, math.inf, -math.inf])
    for _ in range(5):
        sgd.step()  # infinite gradients have a sign
    b.grad = torch.tensor([0.0, math.nan, 1.0])
    with pytest.raises(NumericError) as error:
        sgd.step()
    assert (error.value.step, error.value.tensor) == (5, "second")


@pytest.mark.parametrize("L", [2, 3, 5])
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
def test_closed_form_is_the_sign_of_autograd(L: int, dense: bool) -> None:
    for seed in range(20):
        model, x, y = instance(L, seed, dense=dense)
        signs, exact = closed_signs(model, x, y), autograd(model, x, y)
        for name, gradient in exact.items():
            clear = gradient.abs() > 1e-13 * gradient.abs().max()
            assert clear.any()
            assert torch.equal(signs[name][clear], torch.sign(gradient)[clear]), (name, seed)
            # What autograd cannot tell from 0 is 0 or tiny: untouched coordinates are exactly 0 in both.
            untouched = (x == 0).all(0).all(0)
            assert (signs[name][..., untouched] == 0).all()


def test_closed_form_is_autograd_along_fig1_while_gaps_are_below_25() -> None:
    start = draw(regimes.get("fig1"), 0, 0)
    data = draw_data(start.regime, 0, 0)
    data = data.columns(data.touched)
    model = complete(start, data)
    closed, sgd = ClosedForm(data.x, data.y), SignGD(model.named_parameters(), start.regime.eta)
    compared = 0
    for step in range(301):
        signs, _ = closed(model, closed.project(model))
        if step % 50 == 0:
            z = model.logits(data.x).detach()
            small = (z[..., 0] - z[..., 1]).abs().amax(1) < 25
            # Only weights on the noise of one sample belong to it alone; coordinate 0 needs every sample below 25.
            own = (data.noise[:, 0] != 0)[small].any(0)
            own[0] = bool(small.all())
            for name, gradient in autograd(model, data.x, data.y).items():
                assert torch.equal(signs[name][..., own], torch.sign(gradient)[..., own]), (name, step)
                compared += int(own.sum())
        for name, w in model.named_parameters():
            w.grad = signs[name]
        sgd.step()
    assert compared > 10_000


@pytest.mark.parametrize("L", [2, 3])
def test_closed_form_keeps_signs_where_probabilities_underflow(L: int) -> None:
    # One clear winner a per row: the gradient's leading pair is (a, b) with b the runner-up in log S_b|v_a - v_b|.
    model, x, y = instance(L, 3, dense=False, scale=30.0)
    z = model.logits(x).detach()
    assert float((z.amax(-1) - z.amin(-1)).max()) > 745  # exp underflows to 0
    signs, lost = closed_signs(model, x, y), autograd(model, x, y)
    _, key, value = (t.detach() for t in model.project(x.flatten(0, 1), L))
    rows = (x != 0).flatten(0, 1)
    single = rows.sum(0) == 1  # coordinates that one patch alone touches
    assert single.any()
    for c in single.nonzero()[:, 0].tolist():
        i, l = divmod(int(rows[:, c].nonzero()[0, 0]), L)
        log_s = torch.log_softmax(z[i, l], 0)
        terms = [
            (
                float(log_s[a] + log_s[b] + (value[i, a] - value[i, b]).abs().log()),
                torch.sign(value[i, a] - value[i, b]) * (key[i, a] - key[i, b]),
            )
            for a in range(L)
            for b in range(a)
        ]
        top = max(t for t, _ in terms)
        total = sum((math.exp(t - top) * d for t, d in terms), torch.zeros(5, dtype=torch.float64))
        assert torch.equal(signs["W_Q"][:, c], -torch.sign(y[i] * x[i, l, c] * total))
    assert (signs["W_Q"][:, rows.any(0)] != 0).all()
    assert (lost["W_Q"][:, rows.any(0)] == 0).any()


@pytest.mark.parametrize(("dtype", "safe", "half", "dead"), [(torch.float32, 10, 17, 30), (torch.float64, 25, 37, 50)])
def test_torch_softmax_backward_loses_the_sign_of_the_larger_logit(dtype: torch.dtype, safe: int, half: int, dead: int) -> None:
    # dL/dz_1 = S_1 (g_1 - S_1 g_1 - S_2 g_2) is S_1 S_2 (g_1 - g_2), of size e^-gap: below eps/2 it is rounding noise.
    eps = torch.finfo(dtype).eps
    assert math.exp(-half) < eps / 2 < math.exp(-half + 1)
    g = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    truth = torch.sign(g[:, 0] - g[:, 1])

    def backward(gap: int) -> torch.Tensor:
        z = torch.tensor([[gap, 0.0]], dtype=dtype).repeat(2000, 1).requires_grad_()
        torch.softmax(z, -1).backward(g)
        assert z.grad is not None
        return torch.sign(z.grad[:, 0])

    clear = (g[:, 0] - g[:, 1]).abs() > 4 * eps * math.exp(safe) * g.abs().amax(1)
    assert clear.sum() > 1500
    assert torch.equal(backward(safe)[clear], truth[clear])
    assert (backward(half) == 0).double().mean() > 0.3
    assert (backward(half) == -truth).any()
    assert (backward(dead) == 0).all()


def test_ties_are_exact_zeros() -> None:
    # Equal patches tie every softmax difference; equal values make f independent of the attention.
    model, x, y = instance(2, 0, dense=True)
    same = x[:, :1].expand(-1, 2, -1).contiguous()
    signs = closed_signs(model, same, y)
    assert (signs["W_Q"] == 0).all()
    assert (signs["W_K"] == 0).all()
    assert (signs["W_V"] != 0).all()
