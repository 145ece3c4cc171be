"""DynaMask (Crabbé and van der Schaar, ICML 2021): the smallest part of a series that keeps the prediction.

Equation 2 of the paper: a mask m in [0, 1] mixes each value with its channel's mean over time (their fade to a moving
average over the whole series), m · x + (1 − m) · mean. It minimises the cross-entropy between the predictions before
and after, λ times the squared distance of the sorted mask to one of area a (0 … 0 1 … 1), and the mask's jumps in time;
λ grows a hundredfold. Of three areas, each case keeps the mask with the smallest error, as the authors' code does.
"""

import torch
from torch import Tensor

from anchormoe.benchmark.explainers.task import Explain, ExplainedModel, Explanation, SeriesBatch, as_values

AREAS = (0.1, 0.2, 0.3)
UPDATES = 300
"""The authors use 1,000; the mask hardly moves after 300 of this size."""
LEARNING_RATE, MOMENTUM = 1.0, 0.9
SIZE_WEIGHT, GROWTH = 0.1, 100.0
JUMP_WEIGHT = 0.1
ROWS = 128


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    net = model.network()

    def explain(batch: SeriesBatch) -> Explanation:
        masks = [_best_mask(net, part) for part in batch.parts(ROWS)]
        return Explanation(as_values(torch.cat(masks), batch.mask))

    return explain


def _best_mask(net: torch.nn.Module, batch: SeriesBatch) -> Tensor:
    """(N, C, T) of the area with the smallest error of each case."""
    found = [_fit_mask(net, batch, area) for area in AREAS]
    errors, masks = torch.stack([error for error, _ in found]), torch.stack([mask for _, mask in found])
    return masks[errors.argmin(dim=0), torch.arange(len(batch))]


def _fit_mask(net: torch.nn.Module, batch: SeriesBatch, area: float) -> tuple[Tensor, Tensor]:
    """The error (N,) and the mask (N, C, T); cases do not influence each other."""
    with torch.no_grad():
        target = torch.softmax(net(batch.x, batch.mask), dim=1)
    level = _mean_over_time(batch)
    keep = torch.full_like(batch.x, 0.5).requires_grad_()
    optimizer = torch.optim.SGD([keep], lr=LEARNING_RATE, momentum=MOMENTUM)
    for update in range(UPDATES):
        size_weight = SIZE_WEIGHT * GROWTH ** (update / UPDATES)
        error = _error(net, batch, keep, level, target)
        size, jumps = _size_distance(keep, batch.mask, area), (keep[..., 1:] - keep[..., :-1]).abs().mean(dim=(1, 2))
        optimizer.zero_grad()
        (error + size_weight * size + JUMP_WEIGHT * jumps).sum().backward()
        optimizer.step()
        with torch.no_grad():
            keep.clamp_(0, 1)
    with torch.no_grad():
        return _error(net, batch, keep, level, target), keep.detach()


def _error(net: torch.nn.Module, batch: SeriesBatch, keep: Tensor, level: Tensor, target: Tensor) -> Tensor:
    """(N,) cross-entropy between the prediction of the series and of what the mask leaves of it."""
    mixed = (keep * batch.x + (1 - keep) * level) * batch.mask
    return -(target * torch.log_softmax(net(mixed, batch.mask), dim=1)).sum(dim=1)


def _size_distance(keep: Tensor, mask: Tensor, area: float) -> Tensor:
    """(N,) mean squared distance of the sorted mask to zeros and then ones on `area` of the valid entries."""
    flat, valid = keep.flatten(1), mask.flatten(1)
    count = valid.sum(dim=1, keepdim=True).clamp_min(1)
    order = torch.where(valid, flat.detach(), -1.0).argsort(dim=1, descending=True)
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(flat.shape[1]).expand_as(order))
    target = (rank < (area * count).round()).to(flat.dtype)
    return ((flat - target).square() * valid).sum(dim=1) / count[:, 0]


def _mean_over_time(batch: SeriesBatch) -> Tensor:
    """(N, C, 1) over valid steps."""
    return (batch.x * batch.mask).sum(dim=2, keepdim=True) / batch.mask.sum(dim=2, keepdim=True).clamp_min(1)
