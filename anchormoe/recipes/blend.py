"""The weights of the kernel and the experts in a joint model, chosen out-of-fold. Pure."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.model.calibration import fit_scale, smoothed_losses
from anchormoe.training.task import Objective

_SHARES = np.linspace(0, 1, 21)
_NEGLIGIBLE_SPREAD = 0.02
LOCALIZE_TOLERANCE = 0.02
"""Out-of-fold accuracy that `localize` may give up for the experts. A standard error alone is not enough: near an
accuracy of 1 it is a case or two, and out-of-fold logits, which come from one member each, show the committee weaker
than it serves."""
TOLERANCE = 0.005
"""Nats of log loss, and share of the cases, that the default may give up for the experts, whose evidence is easier to
read. Where both sources are almost always right, the minimum of the loss is decided by a few cases and would leave the
experts next to nothing; where the kernel is better, half a hundredth of a nat is soon spent."""


@dataclass(frozen=True, slots=True)
class Blend:
    """u = kernel · (kernel logits) + experts · (mean of the members' logits). A weight of 0 leaves a source out."""

    share: float
    """ρ of the experts"""
    kernel: float
    experts: float
    log_losses: tuple[tuple[float, float], ...] = ()
    """(share, loss) of every blend that was tried"""
    accuracies: tuple[tuple[float, float], ...] = ()


def choose_blend(
    kernel: Float64, experts: Float64, y: Int64, *, objective: Objective = "accuracy", groups: Int64 | None = None
) -> Blend:
    """From out-of-fold logits, each source first brought to its own best scale.

    `accuracy` takes the largest ρ whose log loss and accuracy are within TOLERANCE of the blend with the least log
    loss, but no ρ that is right less often than the better source alone. `localize` takes the largest ρ whose accuracy
    is within a standard error, or LOCALIZE_TOLERANCE, of the best.
    """
    tau_kernel, tau_experts = fit_scale(kernel, y), fit_scale(experts, y)
    mixed = [(1 - share) * tau_kernel * kernel + share * tau_experts * experts for share in _SHARES]
    losses = np.array([smoothed_losses(fit_scale(logits, y) * logits, y) for logits in mixed])  # (shares, N)
    right = np.array([logits.argmax(axis=1) == y for logits in mixed], np.float64)  # (shares, N)
    share = _by_log_loss(losses, right) if objective == "accuracy" else _by_accuracy(right, groups)
    counts = _which_count((1 - share) * tau_kernel * kernel.std(), share * tau_experts * experts.std())
    return Blend(
        share,
        float((1 - share) * tau_kernel * counts[0]),
        float(share * tau_experts * counts[1]),
        tuple(zip(_SHARES.tolist(), losses.mean(axis=1).tolist(), strict=True)),
        tuple(zip(_SHARES.tolist(), right.mean(axis=1).tolist(), strict=True)),
    )


def _which_count(kernel: float, experts: float) -> tuple[bool, bool]:
    """A source whose logits vary fifty times less than the other's costs time and decides nothing."""
    return kernel > _NEGLIGIBLE_SPREAD * experts, experts > _NEGLIGIBLE_SPREAD * kernel


def _by_log_loss(losses: Float64, right: Float64) -> float:
    """The better source alone is among the blends, so that one at least as accurate always exists."""
    loss, accuracy = losses.mean(axis=1), right.mean(axis=1)
    guarded = accuracy >= max(accuracy[0], accuracy[-1]) - 1e-12
    least = int(np.where(guarded, loss, np.inf).argmin())
    allowed = guarded & (loss <= loss[least] + TOLERANCE) & (accuracy >= accuracy[least] - TOLERANCE)
    return float(_SHARES[np.flatnonzero(allowed)[-1]])


def _by_accuracy(right: Float64, groups: Int64 | None) -> float:
    accuracy = right.mean(axis=1)
    best = int(accuracy.argmax())
    allowed = accuracy[best] - max(standard_error(right[best], groups), LOCALIZE_TOLERANCE)
    return float(_SHARES[np.flatnonzero(accuracy >= allowed - 1e-12)[-1]])


def standard_error(right: Float64, groups: Int64 | None = None) -> float:
    """Of a mean over cases, or over groups of dependent cases."""
    if groups is None:
        return float(right.std() / np.sqrt(len(right)))
    names, index = np.unique(groups, return_inverse=True)
    deviations = np.bincount(index, weights=right - right.mean(), minlength=len(names))
    return float(np.sqrt((deviations**2).sum()) / len(right))
