"""Which variants of a committee serve, judged by cases that their members did not see. Pure."""

import numpy as np

from anchormoe.cases import Bool, Float64, Int64

WORTHWHILE = 0.02
"""Share of the cases on which a later variant must be right more often than an earlier one, to be taken instead."""
_TEMPERATURES = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)


def out_of_fold(logits: Float64, held_out: Bool) -> Float64:
    """(N, Y): of the members' logits (F, N, Y) those of the member that left the case out."""
    counted = held_out[..., None]
    return np.asarray((logits * counted).sum(0) / np.maximum(counted.sum(0), 1))


def choose(oof: Float64, y: Int64, *, kept: int) -> list[int]:
    """Up to `kept` of the variants' out-of-fold logits (V, N, Y), one by one, whichever helps their mean most.

    The order is the caller's preference: in the first choice a later variant must clearly beat an earlier one.
    When as many are kept as there are, all are.
    """
    if kept >= len(oof):
        return list(range(len(oof)))
    chosen = [_preferred(oof, y)]
    while len(chosen) < kept:
        rest = [v for v in range(len(oof)) if v not in chosen]
        losses = [log_losses(oof[[*chosen, v]].mean(0), y) for v in rest]
        best = int(np.argmin([loss.mean() for loss in losses]))
        if losses[best].mean() > log_losses(oof[chosen].mean(0), y).mean():
            break
        chosen.append(rest[best])
    return sorted(chosen)


def log_losses(logits: Float64, y: Int64) -> Float64:
    """(N,) negative log-likelihoods at the temperature that suits the logits best."""
    losses = [_log_losses(logits * factor, y) for factor in _TEMPERATURES]
    return min(losses, key=lambda loss: float(loss.mean()))


def _preferred(oof: Float64, y: Int64) -> int:
    best = 0
    for v in range(1, len(oof)):
        if _clearly_better(oof[v], oof[best], y):
            best = v
    return best


def _clearly_better(new: Float64, old: Float64, y: Int64) -> bool:
    """More cases right by a worthwhile share, and a log loss that is lower by a standard error."""
    right = float((new.argmax(1) == y).mean() - (old.argmax(1) == y).mean())
    gain = log_losses(old, y) - log_losses(new, y)
    return right >= WORTHWHILE and bool(gain.mean() > gain.std() / np.sqrt(len(gain)))


def _log_losses(logits: Float64, y: Int64) -> Float64:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y])
