"""One loop that trains every member of a committee at once, each on its own fold with its own noise."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Bool
from anchormoe.experts.augmentation import kept_evidence, noisy, shifted
from anchormoe.experts.net import CommitteeNet
from anchormoe.experts.objectives import cross_entropy, orthogonality, reliability_alignment, sparsity
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.experts.tokens import Series, for_members
from anchormoe.progress import Progress, ProgressCallback

RAMP = 0.3
"""Share of the steps over which the terms beside the cross-entropy grow to their full weight."""
BATCH_BYTES = 128 << 20
"""Bound on the values that one batch of all members reads."""
_REPORTS = 50


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Prepared series, standard summaries (N, 2·C), classes and case weights (N,), and who trains on what (G, N)."""

    series: Series
    summary: Tensor
    y: Tensor
    weight: Tensor
    trained: Bool


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch per member: x (G, B, C, S), the rest (G, B, …)."""

    x: Tensor
    valid: Tensor
    summary: Tensor
    y: Tensor
    weight: Tensor


@dataclass(frozen=True, slots=True)
class Course:
    """What a training run did."""

    steps: int
    planned: int
    losses: tuple[float, ...]


def planned_steps(cases: int, settings: CommitteeSettings) -> int:
    """`epochs` passes, within the least and the most steps."""
    per_epoch = math.ceil(cases / max(1, min(settings.batch, cases)))
    return min(max(settings.epochs * per_epoch, settings.min_steps), settings.max_steps)


def batch_size(cases: int, values: int, settings: CommitteeSettings) -> int:
    """Cases per member and step; `values` is what one case holds for all members together."""
    return max(1, min(settings.batch, cases, max(4, BATCH_BYTES // (4 * values))))


def train(
    net: CommitteeNet, data: TrainingSet, settings: CommitteeSettings, *, seed: int, progress: ProgressCallback
) -> Course:
    """Changes `net`. A KeyboardInterrupt out of `progress` ends training; the members stay as they are then."""
    generator = torch.Generator().manual_seed(seed)
    size = int(data.trained.sum(1).max())
    planned = planned_steps(size, settings)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    batch = batch_size(size, net.shape.members * data.series.x[0].numel(), settings)
    batches = _batches(data, batch, settings, np.random.default_rng(seed), generator)
    losses: list[float] = []
    for step in range(planned):
        loss = _loss(net, next(batches), settings, min(1.0, step / (RAMP * planned)), generator)
        _update(optimizer, loss, settings.learning_rate * one_cycle(step / planned))
        if step % max(1, planned // _REPORTS) == 0 or step == planned - 1:
            losses.append(float(loss.detach()) / net.shape.members)
            if not _reported(progress, step + 1, planned, losses[-1]):
                return Course(step + 1, planned, tuple(losses))
    return Course(planned, planned, tuple(losses))


def one_cycle(share: float) -> float:
    """The learning rate's factor: up along a cosine for the first quarter of the run, then down to almost 0."""
    if share < 0.25:
        return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * share / 0.25))
    return 1e-3 + (1 - 1e-3) * 0.5 * (1 + math.cos(math.pi * (share - 0.25) / 0.75))


def _update(optimizer: torch.optim.Optimizer, loss: Tensor, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    optimizer.step()


def _reported(progress: ProgressCallback, done: int, total: int, loss: float) -> bool:
    try:
        progress(Progress("experts", done, total, {"loss": loss}))
    except KeyboardInterrupt:
        return False
    return True


def _loss(
    net: CommitteeNet, batch: Batch, settings: CommitteeSettings, ramp: float, generator: torch.Generator
) -> Tensor:
    """Summed over members, which share no parameter: each one's gradient is its own."""
    routed = net(batch.x, batch.valid)
    values = (routed.opinions * routed.gate[..., None]).sum(-2)  # (G, B, P, Y)
    hiding = torch.tensor(settings.per_member("dropout"), device=batch.x.device)
    kept = kept_evidence(batch.valid, settings.dropout * hiding, generator)
    logits = net.context(batch.summary) + (values * kept[..., None]).sum(2)
    loss = cross_entropy(logits, batch.y, batch.weight) + ramp * settings.sparsity * sparsity(values)
    if settings.orthogonality:
        loss = loss + ramp * settings.orthogonality * orthogonality(routed, batch.valid)
    if settings.alignment:
        loss = loss + ramp * settings.alignment * reliability_alignment(routed, batch.valid, logits)
    return loss.sum()


def _batches(
    data: TrainingSet, size: int, settings: CommitteeSettings, rng: np.random.Generator, generator: torch.Generator
) -> Iterator[Batch]:
    """Endless; each member goes through its own cases in its own order."""
    streams = [_endless(np.flatnonzero(trained), size, rng) for trained in data.trained]
    mask = None if bool(data.series.mask.all()) else data.series.mask
    while True:
        index = torch.from_numpy(np.stack([next(stream) for stream in streams])).to(data.y.device)  # (G, B)
        yield _batch(data, index, mask, settings, generator)


def _endless(cases: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Orders of the cases one after the other, cut into pieces of `size`."""
    waiting = np.empty(0, np.int64)
    while True:
        while len(waiting) < size:
            waiting = np.concatenate((waiting, rng.permutation(cases)))
        yield waiting[:size]
        waiting = waiting[size:]


def _batch(
    data: TrainingSet, index: Tensor, mask: Tensor | None, settings: CommitteeSettings, generator: torch.Generator
) -> Batch:
    series = data.series
    x = for_members(series.x[index], series.mask[index], series.level[index], settings.per_member("centre"))
    x = shifted(x.flatten(0, 1), series.length[index].flatten(), settings.shift, generator)
    x = noisy(x, None if mask is None else mask[index].flatten(0, 1), settings.noise, generator)
    return Batch(
        x=x.view(*index.shape, *x.shape[1:]),
        valid=series.valid[index].float(),
        summary=data.summary[index],
        y=data.y[index],
        weight=data.weight[index],
    )
