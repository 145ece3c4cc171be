"""Trains a network: AdamW, warm-up, early stopping, resuming, several processes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from anchormoe.progress import Progress, ProgressCallback, silent
from anchormoe.training import distributed
from anchormoe.training.checkpoints import Checkpoints, StageCheckpoint
from anchormoe.training.heap import LARGE_BYTES, trim_heap
from anchormoe.training.optimizer_state import TrainingState, model_tensors, optimizer_tensors, restore_optimizer

WARM_UP = 0.1
"""Share of the planned steps over which the learning rate grows to its full value."""
MAX_GRADIENT_NORM = 1.0
FREED_BLOCK_BYTES = 31 << 20
"""Just below the largest block that glibc's allocator adapts to."""


@dataclass(frozen=True, slots=True)
class Examples:
    """x (N, C, T), mask (N, C, T), y (N,), weight (N,): a data set or a batch."""

    x: Tensor
    mask: Tensor
    y: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def subset(self, index: Tensor, device: torch.device | None = None) -> "Examples":
        return Examples(*(part[index].to(device) for part in (self.x, self.mask, self.y, self.weight)))


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """`epochs` determines the course of the learning rate; `stop_after` ends earlier without changing it."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int
    patience: int | None = None
    stop_after: int | None = None
    mixed_precision: bool = False

    @property
    def last_epoch(self) -> int:
        return min(self.epochs, self.stop_after or self.epochs)


@dataclass(frozen=True, slots=True)
class Validation:
    """`loss` decides on early stopping and the best epoch; `logits` (V, Y) are stored for every epoch."""

    loss: float
    figures: dict[str, float]
    logits: Tensor


@dataclass(frozen=True, slots=True)
class TrainingHistory:
    """Losses, other figures and validation logits of every epoch; epochs are counted from 1."""

    epochs: int
    best_epoch: int
    curves: list[dict[str, float]]
    validation: list[Tensor]
    interrupted: bool


Loss = Callable[[nn.Module, Examples, float], Tensor]
"""(model, batch, share of the planned epochs) → unweighted loss per example (B,)."""
Validate = Callable[[nn.Module], Validation]


@dataclass(slots=True)
class _Run:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    config: LoopConfig
    loss: Loss
    device: torch.device
    state: TrainingState = field(default_factory=TrainingState)


def train_network(
    model: nn.Module,
    examples: Examples,
    config: LoopConfig,
    *,
    loss: Loss,
    chosen: Tensor | None = None,
    validate: Validate | None = None,
    progress: ProgressCallback = silent,
    stage: str = "training",
    checkpoints: Checkpoints | None = None,
) -> TrainingHistory:
    """Changes `model`: to its best validated epoch, or to the last one without validation.

    `chosen` are the indices of the examples to train on (default: all); only batches are copied. Each epoch has its own
    seed, so a resumed run equals an uninterrupted one. A KeyboardInterrupt, also one from `progress`, ends training
    and keeps the best epoch so far.
    """
    _keep_freed_memory(examples.x.nbytes)
    run = _start(model, config, loss, checkpoints.load(stage) if checkpoints else None)
    chosen = torch.arange(len(examples)) if chosen is None else chosen
    interrupted = False
    while not interrupted and run.state.epoch < config.last_epoch and not _stops_early(run.state.curves, config):
        try:
            _finish_epoch(run, _train_epoch(run, examples, chosen, run.state.epoch), validate)
            interrupted = _report(run, stage, progress, checkpoints)
            trim_heap(examples.x.nbytes)
        except KeyboardInterrupt:
            interrupted = True
    if run.state.best:
        model.load_state_dict(run.state.best)
    state = run.state
    return TrainingHistory(state.epoch, _best_epoch(state.curves), state.curves, state.validation, interrupted)


def _keep_freed_memory(data_bytes: int) -> None:
    """Makes glibc keep the memory that a step frees for the next one, instead of returning it page by page.

    glibc adapts to the largest block it has seen freed; the block is never touched, so it costs no memory. A step of a
    small net becomes up to a tenth faster. With large data memory matters more (`heap`). Other allocators ignore this.
    """
    if data_bytes < LARGE_BYTES:
        torch.empty(FREED_BLOCK_BYTES, dtype=torch.uint8)


def _report(run: _Run, stage: str, progress: ProgressCallback, checkpoints: Checkpoints | None) -> bool:
    """Stores and reports the epoch in rank 0; True in all ranks if training was interrupted."""
    interrupted = False
    if distributed.rank() == 0:
        if checkpoints:
            checkpoints.save(stage, _state(run).to_checkpoint())
        try:
            progress(Progress(stage, run.state.epoch, run.config.last_epoch, run.state.curves[-1]))
        except KeyboardInterrupt:
            interrupted = True
    return distributed.any_rank(interrupted, run.device)


def _start(model: nn.Module, config: LoopConfig, loss: Loss, checkpoint: StageCheckpoint | None) -> _Run:
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )
    run = _Run(model, optimizer, config, loss, device)
    if checkpoint:
        run.state = TrainingState.from_checkpoint(checkpoint)
        model.load_state_dict(run.state.model)
        restore_optimizer(optimizer, run.state.optimizer)
    return run


def _train_epoch(run: _Run, examples: Examples, chosen: Tensor, epoch: int) -> float:
    """Mean loss of one pass over the chosen examples."""
    run.model.train()
    total, weight = 0.0, 0.0
    with torch.random.fork_rng(devices=_cuda_devices(run.device)):
        torch.manual_seed(run.config.seed * 1_000_003 + epoch)
        batches = list(_batches(chosen, run.config.batch_size))
        for number, index in enumerate(batches):
            share = (epoch + (number + 1) / len(batches)) / run.config.epochs
            batch_weight = float(examples.weight[index].sum())
            total += _step(run, examples, index, batch_weight, share)
            weight += batch_weight
    return total / max(weight, 1e-12)


def _batches(chosen: Tensor, size: int) -> Iterator[Tensor]:
    """Indices of the batches of one epoch; a last batch of a single example is joined to the previous one."""
    parts = list(torch.split(chosen[torch.randperm(len(chosen))], size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    yield from parts


def _step(run: _Run, examples: Examples, index: Tensor, weight: float, share: float) -> float:
    """One update; every process takes its part of the batch, divided by the weight of the whole batch."""
    for group in run.optimizer.param_groups:
        group["lr"] = run.config.learning_rate * learning_rate_factor(share)
    run.optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=run.device)
    part = index[distributed.rank() :: distributed.world()]
    if len(part):
        batch = examples.subset(part, run.device)
        with torch.autocast(run.device.type, torch.bfloat16, enabled=run.config.mixed_precision):
            losses = run.loss(run.model, batch, share)
        value = (losses.float() * batch.weight).sum()
        (value / max(weight, 1e-12)).backward()
        total = value.detach()
    total = distributed.share_gradients(run.model, total)
    clip_gradients(run.model)
    run.optimizer.step()
    return float(total)


def clip_gradients(model: nn.Module) -> None:
    """To a common norm of at most 1. Bit for bit `nn.utils.clip_grad_norm_`, which takes three times as long."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    factor = MAX_GRADIENT_NORM / (norm + 1e-6)
    if factor < 1:
        for gradient in gradients:
            gradient.mul_(factor)


def learning_rate_factor(share: float) -> float:
    """Linear warm-up, then down along a cosine to 1 %."""
    if share < WARM_UP:
        return share / WARM_UP
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))


def _finish_epoch(run: _Run, loss: float, validate: Validate | None) -> None:
    state = run.state
    figures = {"loss": loss}
    if validate:
        run.model.eval()
        result = validate(run.model)
        figures |= {"validation_loss": result.loss, **result.figures}
        state.validation.append(result.logits)
    state.curves.append(figures)
    state.epoch += 1
    if validate and _best_epoch(state.curves) == state.epoch:
        state.best = model_tensors(run.model)


def _best_epoch(curves: list[dict[str, float]]) -> int:
    """The first epoch with the smallest validation loss, counted from 1; without validation the last one."""
    losses = [figures.get("validation_loss", math.nan) for figures in curves]
    known = [(loss, epoch) for epoch, loss in enumerate(losses, start=1) if not math.isnan(loss)]
    return min(known)[1] if known else len(curves)


def _stops_early(curves: list[dict[str, float]], config: LoopConfig) -> bool:
    """No better epoch for `patience` epochs."""
    return config.patience is not None and len(curves) - _best_epoch(curves) >= config.patience and bool(curves)


def _state(run: _Run) -> TrainingState:
    run.state.model = model_tensors(run.model)
    run.state.optimizer = optimizer_tensors(run.optimizer)
    return run.state


def _cuda_devices(device: torch.device) -> list[int]:
    return [device.index or 0] if device.type == "cuda" else []
