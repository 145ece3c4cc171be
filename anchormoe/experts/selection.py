"""Chooses the variants of a committee by cases that their members were not trained on. Pure."""

import numpy as np

from anchormoe.cases import Bool, Float64, Int64

_TEMPERATURES = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)


def out_of_fold(logits: Float64, held_out: Bool) -> Float64:
    """(N, Y): from the members' logits (F, N, Y) those of the member that was not trained on the case."""
    chosen = held_out[..., None]
    return np.asarray((logits * chosen).sum(0) / np.maximum(chosen.sum(0), 1))


def choose_variants(oof: Float64, y: Int64, *, count: int) -> list[int]:
    """Up to `count` of the variants with out-of-fold logits (V, N, Y), each time the one that improves their mean most.

    Earlier variants are preferred: the first choice is a later one only if it is clearly better.
    """
    if count >= len(oof):
        return list(range(len(oof)))
    chosen = [_first_choice(oof, y)]
    while len(chosen) < count:
        rest = [v for v in range(len(oof)) if v not in chosen]
        losses = [log_losses(oof[[*chosen, v]].mean(0), y) for v in rest]
        best = int(np.argmin([loss.mean() for loss in losses]))
        if losses[best].mean() > log_losses(oof[chosen].mean(0), y).mean():
            break
        chosen.append(rest[best])
    return sorted(chosen)


def log_losses(logits: Float64, y: Int64) -> Float64:
    """(N,) log losses at the temperature with the smallest mean."""
    losses = [_log_losses(logits * factor, y) for factor in _TEMPERATURES]
    return min(losses, key=lambda loss: float(loss.mean()))


def _first_choice(oof: Float64, y: Int64) -> int:
    best = 0
    for v in range(1, len(oof)):
        if _clearly_better(oof[v], oof[best], y):
            best = v
    return best


def _clearly_better(new: Float64, old: Float64, y: Int64) -> bool:
    """Fewer errors, and a log loss that is lower by a standard error.

    Accuracy alone is too coarse with a hundred cases, and a log loss may be lower for being more confident alone.
    """
    fewer_errors = (new.argmax(1) == y).sum() > (old.argmax(1) == y).sum()
    gain = log_losses(old, y) - log_losses(new, y)
    return bool(fewer_errors and gain.mean() > gain.std() / np.sqrt(len(gain)))


def _log_losses(logits: Float64, y: Int64) -> Float64:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y])
