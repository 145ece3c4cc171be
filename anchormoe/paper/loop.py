"""The gradient training loop: AdamW, warm-up, early stopping, best so far, resume, several processes."""

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
KEPT_BYTES = 31 << 20
"""Just below what glibc's allocator adapts to at most."""


@dataclass(frozen=True, slots=True)
class Examples:
    """x (N, C, T), mask (N, C, T), y (N,), weight (N,); a batch of them is the same thing."""

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
    """`epochs` shapes the learning rate; `stop_after` ends earlier without changing it."""

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
    """`loss` decides early stopping and the best epoch; `logits` (V, Y) are kept for every epoch."""

    loss: float
    figures: dict[str, float]
    logits: Tensor


@dataclass(frozen=True, slots=True)
class TrainingHistory:
    """What happened: figures and validation logits of every epoch, counted from 1."""

    epochs: int
    best_epoch: int
    curves: list[dict[str, float]]
    validation: list[Tensor]
    interrupted: bool


Loss = Callable[[nn.Module, Examples, float], Tensor]
"""(model, batch, share of the planned epochs) → loss per example (B,), unweighted."""
Validate = Callable[[nn.Module], Validation]


@dataclass(slots=True)
class _Run:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    plan: LoopConfig
    loss: Loss
    device: torch.device
    state: TrainingState = field(default_factory=TrainingState)


def train_network(
    model: nn.Module,
    examples: Examples,
    plan: LoopConfig,
    *,
    loss: Loss,
    chosen: Tensor | None = None,
    validate: Validate | None = None,
    progress: ProgressCallback = silent,
    stage: str = "training",
    checkpoints: Checkpoints | None = None,
) -> TrainingHistory:
    """Changes `model`: to its best validated epoch, or to the last one without validation.

    `chosen` are the numbers of the examples to train on (all without it); nothing is copied but batches.
    Each epoch draws from its own seed, so a run that was resumed equals one that was not. A KeyboardInterrupt,
    also one raised by `progress`, ends training and keeps the best so far.
    """
    _keep_freed_memory(examples.x.nbytes)
    run = _start(model, plan, loss, checkpoints.load(stage) if checkpoints else None)
    chosen = torch.arange(len(examples)) if chosen is None else chosen
    interrupted = False
    while not interrupted and run.state.epoch < plan.last_epoch and not _is_over(run.state.curves, plan):
        try:
            _finish_epoch(run, _train_epoch(run, examples, chosen, run.state.epoch), validate)
            interrupted = _told(run, stage, progress, checkpoints)
            trim_heap(examples.x.nbytes)
        except KeyboardInterrupt:
            interrupted = True
    if run.state.best:
        model.load_state_dict(run.state.best)
    state = run.state
    return TrainingHistory(state.epoch, _best_epoch(state.curves), state.curves, state.validation, interrupted)


def _keep_freed_memory(data_bytes: int) -> None:
    """What a step frees stays with this process for the next one, instead of going back to the system page by page.

    glibc adapts to the largest block it has seen freed; the block is never touched, so it costs no memory. A step of a
    small net becomes up to a tenth faster; with large data memory matters more (`heap`). Other allocators do not care.
    """
    if data_bytes < LARGE_BYTES:
        torch.empty(KEPT_BYTES, dtype=torch.uint8)


def _told(run: _Run, stage: str, progress: ProgressCallback, checkpoints: Checkpoints | None) -> bool:
    """Keeps and reports the epoch, in the first process; True for all of them when it is asked to stop."""
    asked = False
    if distributed.rank() == 0:
        if checkpoints:
            checkpoints.save(stage, _saved(run).to_checkpoint())
        try:
            progress(Progress(stage, run.state.epoch, run.plan.last_epoch, run.state.curves[-1]))
        except KeyboardInterrupt:
            asked = True
    return distributed.any_rank(asked, run.device)


def _start(model: nn.Module, plan: LoopConfig, loss: Loss, kept: StageCheckpoint | None) -> _Run:
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True)
    run = _Run(model, optimizer, plan, loss, device)
    if kept:
        run.state = TrainingState.from_checkpoint(kept)
        model.load_state_dict(run.state.model)
        restore_optimizer(optimizer, run.state.optimizer)
    return run


def _train_epoch(run: _Run, examples: Examples, chosen: Tensor, epoch: int) -> float:
    """Mean loss of one pass over the chosen examples."""
    run.model.train()
    total, weight = 0.0, 0.0
    with torch.random.fork_rng(devices=_cuda_devices(run.device)):
        torch.manual_seed(run.plan.seed * 1_000_003 + epoch)
        batches = list(_batches(chosen, run.plan.batch_size))
        for number, index in enumerate(batches):
            share = (epoch + (number + 1) / len(batches)) / run.plan.epochs
            batch_weight = float(examples.weight[index].sum())
            total += _step(run, examples, index, batch_weight, share)
            weight += batch_weight
    return total / max(weight, 1e-12)


def _batches(chosen: Tensor, size: int) -> Iterator[Tensor]:
    """Index batches of one epoch; a last one of a single example joins the one before."""
    parts = list(torch.split(chosen[torch.randperm(len(chosen))], size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    yield from parts


def _step(run: _Run, examples: Examples, index: Tensor, weight: float, share: float) -> float:
    """One update; every process takes its share of the batch, divided by the weight of the whole of it."""
    for group in run.optimizer.param_groups:
        group["lr"] = run.plan.learning_rate * learning_rate_factor(share)
    run.optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=run.device)
    own = index[distributed.rank() :: distributed.world()]
    if len(own):
        batch = examples.subset(own, run.device)
        with torch.autocast(run.device.type, torch.bfloat16, enabled=run.plan.mixed_precision):
            losses = run.loss(run.model, batch, share)
        value = (losses.float() * batch.weight).sum()
        (value / max(weight, 1e-12)).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        total = value.detach()
    total = distributed.share_gradients(run.model, total)
    clip_gradients(run.model)
    run.optimizer.step()
    return float(total)


def clip_gradients(model: nn.Module) -> None:
    """To a common norm of at most 1: `nn.utils.clip_grad_norm_`, which takes three times as long, bit for bit."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    factor = MAX_GRADIENT_NORM / (norm + 1e-6)
    if factor < 1:
        for gradient in gradients:
            gradient.mul_(factor)


def learning_rate_factor(share: float) -> float:
    """Up in a straight line over the warm-up, then down along a cosine to 1 %."""
    if share < WARM_UP:
        return share / WARM_UP
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))


def _finish_epoch(run: _Run, loss: float, validate: Validate | None) -> None:
    state = run.state
    figures = {"loss": loss}
    if validate:
        run.model.eval()
        seen = validate(run.model)
        figures |= {"validation_loss": seen.loss, **seen.figures}
        state.validation.append(seen.logits)
    state.curves.append(figures)
    state.epoch += 1
    if validate and _best_epoch(state.curves) == state.epoch:
        state.best = model_tensors(run.model)


def _best_epoch(curves: list[dict[str, float]]) -> int:
    """The first epoch with the least validation loss, counted from 1; the last one without validation."""
    losses = [figures.get("validation_loss", math.nan) for figures in curves]
    known = [(loss, epoch) for epoch, loss in enumerate(losses, start=1) if not math.isnan(loss)]
    return min(known)[1] if known else len(curves)


def _is_over(curves: list[dict[str, float]], plan: LoopConfig) -> bool:
    """Early stopping: no better epoch for `patience` epochs."""
    return plan.patience is not None and len(curves) - _best_epoch(curves) >= plan.patience and bool(curves)


def _saved(run: _Run) -> TrainingState:
    run.state.model = model_tensors(run.model)
    run.state.optimizer = optimizer_tensors(run.optimizer)
    return run.state


def _cuda_devices(device: torch.device) -> list[int]:
    return [device.index or 0] if device.type == "cuda" else []
