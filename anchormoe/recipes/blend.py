"""How much the experts count beside the kernel evidence, decided out-of-fold. Pure."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.model.calibration import fit_scale, smoothed_losses
from anchormoe.training.task import Objective

_SHARES = np.linspace(0, 1, 21)
_INAUDIBLE = 0.02
PRICE_OF_PLACE = 0.02
"""Out-of-fold accuracy that `localize` may give away. Near 1 a standard error is a case or two, and the committee is
judged out-of-fold by one member at a time, weaker than it serves; by a standard error alone the kernel drowned it."""
IMMATERIAL = 0.005
"""Nats, and share of the cases: so much likelihood and accuracy the default gives for evidence that is easier to read.
Where both sources are almost always right, the least loss is decided by a few cases and leaves the experts next to
nothing; where there is something to gain by the kernel, half a hundredth of a nat is soon spent."""


@dataclass(frozen=True, slots=True)
class Blend:
    """u = kernel · (kernel logits) + experts · (mean of the members' logits); `share` is ρ. 0 silences a source."""

    share: float
    kernel: float
    experts: float
    log_losses: tuple[tuple[float, float], ...] = ()
    accuracies: tuple[tuple[float, float], ...] = ()


def choose_blend(
    kernel: Float64, experts: Float64, y: Int64, *, objective: Objective = "accuracy", groups: Int64 | None = None
) -> Blend:
    """`accuracy`: the largest ρ that is not materially worse than the one of least negative log-likelihood. `localize`:
    the largest ρ within a standard error, or two cases in a hundred, of the best accuracy.

    Both sources are first brought to their own best scale; all logits are out-of-fold. Where the data cannot tell two
    blends apart, the one with more of the experts is taken: their evidence is sharper, and out-of-fold logits, which
    come from one member each, show them weaker than the whole committee is.
    """
    tau_kernel, tau_experts = fit_scale(kernel, y), fit_scale(experts, y)
    mixed = [(1 - share) * tau_kernel * kernel + share * tau_experts * experts for share in _SHARES]
    losses = np.array([smoothed_losses(fit_scale(logits, y) * logits, y) for logits in mixed])  # (shares, N)
    right = np.array([logits.argmax(axis=1) == y for logits in mixed], np.float64)  # (shares, N)
    share = _by_likelihood(losses, right) if objective == "accuracy" else _by_accuracy(right, groups)
    heard = _heard((1 - share) * tau_kernel * kernel.std(), share * tau_experts * experts.std())
    return Blend(
        share,
        float((1 - share) * tau_kernel * heard[0]),
        float(share * tau_experts * heard[1]),
        tuple(zip(_SHARES.tolist(), losses.mean(axis=1).tolist(), strict=True)),
        tuple(zip(_SHARES.tolist(), right.mean(axis=1).tolist(), strict=True)),
    )


def _heard(kernel: float, experts: float) -> tuple[bool, bool]:
    """A source whose logits vary fifty times less than the other's costs time and decides nothing."""
    return kernel > _INAUDIBLE * experts, experts > _INAUDIBLE * kernel


def _by_likelihood(losses: Float64, right: Float64) -> float:
    loss, accuracy = losses.mean(axis=1), right.mean(axis=1)
    least = int(loss.argmin())
    allowed = (loss <= loss[least] + IMMATERIAL) & (accuracy >= accuracy[least] - IMMATERIAL)
    return float(_SHARES[np.flatnonzero(allowed)[-1]])


def _by_accuracy(right: Float64, groups: Int64 | None) -> float:
    accuracy = right.mean(axis=1)
    best = int(accuracy.argmax())
    allowed = accuracy[best] - max(standard_error(right[best], groups), PRICE_OF_PLACE)
    return float(_SHARES[np.flatnonzero(accuracy >= allowed - 1e-12)[-1]])


def standard_error(right: Float64, groups: Int64 | None = None) -> float:
    """Of a mean over cases, or over groups of cases that stand or fall together."""
    if groups is None:
        return float(right.std() / np.sqrt(len(right)))
    names, index = np.unique(groups, return_inverse=True)
    deviations = np.bincount(index, weights=right - right.mean(), minlength=len(names))
    return float(np.sqrt((deviations**2).sum()) / len(right))
