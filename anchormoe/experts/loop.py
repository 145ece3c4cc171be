"""Trains all members of a committee in one loop, each on its own fold with its own noise."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anchormoe.errors import ModelError
from anchormoe.experts.batches import Batch, Batches, Reading, TrainingSet
from anchormoe.experts.losses import (
    cross_entropy,
    orthogonality,
    posterior_anchors,
    reliability_alignment,
    sparsity,
)
from anchormoe.experts.net import CommitteeNet, RoutedTokens
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.progress import Progress, ProgressCallback
from anchormoe.training import distributed
from anchormoe.training.checkpoints import Checkpoints, StageCheckpoint, prefix_tensors
from anchormoe.training.heap import trim_heap
from anchormoe.training.optimizer_state import model_tensors, optimizer_tensors, restore_optimizer

STAGE = "experts"
RAMP = 0.3
"""Share of the steps over which the other terms of the loss grow to their full weight."""
BATCH_BYTES = 128 << 20
"""Upper bound for the values that one batch of all members reads."""
_ANCHOR_CASES, _CASES_PER_PASS = 512, 32
_REPORTS = 50
_REPORTS_PER_CHECKPOINT = 5


@dataclass(frozen=True, slots=True)
class ExpertsHistory:
    """What happened in a training run."""

    steps: int
    planned: int
    losses: tuple[float, ...]
    validation: tuple[dict[str, float], ...] = ()
    """the latest validation result at each of the losses"""


def planned_steps(cases: int, settings: CommitteeSettings) -> int:
    """`epochs` passes over the cases, within `min_steps` and `max_steps`."""
    per_epoch = math.ceil(cases / max(1, min(settings.batch, cases)))
    return min(max(settings.epochs * per_epoch, settings.min_steps), settings.max_steps)


def batch_size(cases: int, values: int, settings: CommitteeSettings) -> int:
    """Cases per member and step; `values` is the size of one case for all members together."""
    return max(1, min(settings.batch, cases, max(4, BATCH_BYTES // (4 * values))))


@dataclass(slots=True)
class _Run:
    net: CommitteeNet
    optimizer: torch.optim.Optimizer
    batches: Batches
    planned: int
    mixed_precision: bool
    step: int = 0
    losses: list[float] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)

    @property
    def report_due(self) -> bool:
        """After the latest step."""
        return (self.step - 1) % max(1, self.planned // _REPORTS) == 0 or self.step == self.planned

    def to_checkpoint(self) -> StageCheckpoint:
        model, optimizer = model_tensors(self.net), optimizer_tensors(self.optimizer)
        tensors = prefix_tensors(model=model, optimizer=optimizer, batches=self.batches.tensors())
        return StageCheckpoint(tensors, {"step": self.step, "losses": self.losses, "validation": self.validation,
                              "orders": self.batches.facts()})  # fmt: skip

    def restore(self, checkpoint: StageCheckpoint) -> None:
        """Raises ModelError if the checkpoint belongs to another run."""
        try:
            self.net.load_state_dict(checkpoint.group("model"))
            restore_optimizer(self.optimizer, checkpoint.group("optimizer"))
            self.batches.restore(checkpoint)
            self.step, self.losses = int(checkpoint.facts["step"]), list(checkpoint.facts["losses"])
            self.validation = list(checkpoint.facts["validation"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"the checkpoint does not fit these experts: {error}") from error


def train_committee(
    net: CommitteeNet, data: TrainingSet, settings: CommitteeSettings, *, seed: int, progress: ProgressCallback,
    checkpoints: Checkpoints | None = None, mixed_precision: bool | None = None,
) -> ExpertsHistory:  # fmt: skip
    """Changes `net`. A KeyboardInterrupt from `progress` ends training and keeps the members as they are.

    A run resumed from `checkpoints` gives the same result as one without interruption. `mixed_precision` (default: on a
    GPU) computes products in bfloat16; parameters, losses and serving are in float32.
    """
    run = _start(net, data, settings, seed, net.bias.is_cuda if mixed_precision is None else mixed_precision)
    if checkpoints and (checkpoint := checkpoints.load(STAGE)):
        run.restore(checkpoint)
    stopped = False
    while run.step < run.planned and not stopped:
        loss = _loss(run, settings, min(1.0, run.step / (RAMP * run.planned)))
        loss = _update(run, loss, settings.learning_rate * one_cycle(run.step / run.planned))
        run.step += 1
        if run.report_due:
            run.losses.append(float(loss) / net.shape.members)
            stopped = _report(run, progress, checkpoints)
            trim_heap(data.series.x.nbytes)
    _store_anchors(run)
    return ExpertsHistory(run.step, run.planned, tuple(run.losses), tuple(run.validation))


def _start(net: CommitteeNet, data: TrainingSet, settings: CommitteeSettings, seed: int, mixed_precision: bool) -> _Run:
    size = int(data.trained.sum(1).max())
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    batch = batch_size(size, net.shape.members * net.shape.read_channels * data.series.x.shape[-1], settings)
    batches = Batches(net, data, batch, settings, seed)
    return _Run(net, optimizer, batches, planned_steps(size, settings), mixed_precision)


def _store_anchors(run: _Run) -> None:
    """The posterior anchors of each member: means over some of the cases it was trained on."""
    batch = run.batches.trained_cases(_ANCHOR_CASES)
    total = torch.zeros_like(run.net.anchors)
    parts = -(-batch.y.shape[1] // _CASES_PER_PASS)
    with torch.inference_mode():
        for first in range(parts):
            reading = run.batches.read(batch.every_nth(parts, first))
            anchors = posterior_anchors(_route(run.net, reading), reading.valid.amax(2))  # (G, B, M, D)
            total += anchors.sum(1)
    run.net.anchors.copy_(total / batch.y.shape[1])


def one_cycle(share: float) -> float:
    """Factor of the learning rate: up along a cosine in the first quarter of the run, then down to almost 0."""
    if share < 0.25:
        return 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * share / 0.25))
    return 1e-3 + (1 - 1e-3) * 0.5 * (1 + math.cos(math.pi * (share - 0.25) / 0.75))


def _update(run: _Run, loss: Tensor, learning_rate: float) -> Tensor:
    """One step; returns the loss summed over all processes."""
    for group in run.optimizer.param_groups:
        group["lr"] = learning_rate
    run.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    total = distributed.share_gradients(run.net, loss.detach())
    run.optimizer.step()
    return total


def _report(run: _Run, progress: ProgressCallback, checkpoints: Checkpoints | None) -> bool:
    """Validates, reports and stores in rank 0; True in all ranks if training was interrupted."""
    interrupted = False
    if distributed.rank() == 0:
        due = len(run.losses) % _REPORTS_PER_CHECKPOINT == 0 or run.step == run.planned
        run.validation.append(_validate(run) if due or not run.validation else run.validation[-1])
        try:
            progress(Progress(STAGE, run.step, run.planned, {"loss": run.losses[-1], **run.validation[-1]}))
        except KeyboardInterrupt:
            interrupted = True
        if checkpoints and (interrupted or due):
            checkpoints.save(STAGE, run.to_checkpoint())
    return distributed.any_rank(interrupted, run.net.bias.device)


def _validate(run: _Run) -> dict[str, float]:
    """The mean over members, each on some of the cases it does not train on; empty if there are none."""
    batch = run.batches.held_out()
    if batch is None:
        return {}
    with torch.inference_mode():
        values, levels = _evidence(run.net, _route(run.net, run.batches.read(batch)), batch)
        logits = run.net.context()[:, None] + levels.sum(2) + values.sum((1, 3))
        loss = cross_entropy(logits, batch.y, batch.weight).mean()
        accuracy = (logits.argmax(-1) == batch.y).float().mean()
    return {"validation_loss": float(loss), "validation_accuracy": float(accuracy)}


def _loss(run: _Run, settings: CommitteeSettings, ramp: float) -> Tensor:
    """Summed over members, which share no parameters, so that each gets its own gradient.

    Every process takes its part of the batch, weighted by its share of the whole.
    """
    net, batches = run.net, run.batches
    whole, draws = batches.take()
    rank, world = distributed.rank(), distributed.world()
    batch, part = whole.every_nth(world, rank), draws.every_nth(world, rank)
    if not batch.y.shape[1]:
        return net.bias.sum() * 0
    reading = batches.read(batch, part)
    with torch.autocast(net.bias.device.type, torch.bfloat16, enabled=run.mixed_precision):
        routed = _route(net, reading)
    values, levels = _evidence(net, routed, batch)
    logits = net.context()[:, None] + levels.sum(2) + values.sum((1, 3))
    entropy = cross_entropy(logits, batch.y, batch.weight) * _weight_share(batch.weight, whole.weight)
    units = torch.cat((values.transpose(1, 2).flatten(2, 3), levels), 2)  # (G, B, R·P + R, Y)
    other_terms = ramp * settings.sparsity * sparsity(units)
    valid = reading.valid.amax(2)  # (G, B, P)
    if settings.orthogonality:
        other_terms = other_terms + ramp * settings.orthogonality * orthogonality(routed, valid)
    if settings.alignment:
        free = net.evidence(routed, routed.weight).sum(1)
        other_terms = other_terms + ramp * settings.alignment * reliability_alignment(routed, valid, free, logits)
    return (entropy + other_terms * (batch.y.shape[1] / whole.y.shape[1])).sum()


def _route(net: CommitteeNet, reading: Reading) -> RoutedTokens:
    routed: RoutedTokens = net(reading.x, reading.deviation, reading.valid, reading.positions)
    return routed


def _evidence(net: CommitteeNet, routed: RoutedTokens, batch: Batch) -> tuple[Tensor, Tensor]:
    """Of the tokens (G, R, B, P, Y) and of the levels (G, B, R, Y)."""
    share = routed.weight * routed.reliability
    return net.evidence(routed, share), net.level_evidence(batch.summary, batch.present)


def _weight_share(part: Tensor, whole: Tensor) -> Tensor:
    """(G,): the share of the batch's weight in this process."""
    return part.sum(1) / whole.sum(1).clamp(min=1e-8)
