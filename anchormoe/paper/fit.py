"""Fits the paper recipe: folds of TRAIN choose the number of epochs, then all of TRAIN is fitted."""

from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.evidence import Json, Patching
from anchormoe.folds import FEW_CASES
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.loop import Examples, LoopConfig, Loss, TrainingHistory, Validate, Validation, train_network
from anchormoe.paper.losses import LossWeights, objective
from anchormoe.paper.net import PaperNet
from anchormoe.paper.serving import ServingNet
from anchormoe.paper.settings import DataShape, PaperSettings
from anchormoe.paper.source import PaperSource, windows_per_pass
from anchormoe.progress import ProgressCallback
from anchormoe.training.checkpoints import Checkpoints
from anchormoe.training.task import FitTask, SourceFit, normalize_weights


@dataclass(frozen=True, slots=True)
class _PaperTask:
    """What all training runs of this fit share."""

    examples: Examples
    architecture: ModelConfig
    settings: PaperSettings
    loop: LoopConfig
    device: torch.device
    progress: ProgressCallback
    checkpoints: Checkpoints | None


def fit_paper(fit_task: FitTask, settings: PaperSettings) -> SourceFit[PaperSource]:
    """Fits normalized cases. With `test` the epoch is the best one on TEST: the authors' protocol, `optimistic`.

    1. fit the folds, 2. choose the epoch with the smallest validation loss over all folds (half of the epochs below
    FEW_CASES), 3. fit all cases up to that epoch.
    A KeyboardInterrupt ends the current stage and keeps its best net.
    """
    y, n_classes, test = fit_task.y, fit_task.n_classes, fit_task.test
    task = _task(fit_task, _examples(fit_task.cases, y, _case_weights(fit_task, settings)), settings)
    held_out, trained = _folds(fit_task, settings.folds)
    histories, nets = _fit_folds(task, held_out, trained)
    epoch = _fold_loop(task).last_epoch if len(y) < FEW_CASES else best_common_epoch(histories)
    oof = _out_of_fold(histories, held_out, epoch, n_classes)
    if any(history.interrupted for history in histories):
        return _source_fit(nets[-1], oof, task, histories, histories[-1].best_epoch, "honest")
    if test is not None:
        net, history = _fit_all(task, task.loop, _examples(*test, np.ones(len(test[1]))))
        return _source_fit(net, oof, task, [*histories, history], history.best_epoch, "optimistic")
    net, history = _fit_all(task, replace(task.loop, stop_after=epoch), None)
    return _source_fit(net, oof, task, [*histories, history], history.epochs, "honest")


def best_common_epoch(histories: list[TrainingHistory]) -> int:
    """The epoch (from 1) with the smallest mean validation loss, of those that every fold reached."""
    reached = min(len(history.validation) for history in histories)
    if reached == 0:
        return 1
    losses = [[figures["validation_loss"] for figures in history.curves[:reached]] for history in histories]
    return int(np.argmin(np.mean(losses, axis=0))) + 1


def _task(fit_task: FitTask, examples: Examples, settings: PaperSettings) -> _PaperTask:
    device = torch.device(fit_task.device)
    shape = DataShape(examples.x.shape[2], examples.x.shape[1], fit_task.n_classes, len(examples))
    sizes = settings.sizes_for(shape)
    loop = LoopConfig(
        epochs=sizes.epochs,
        batch_size=sizes.batch_size,
        learning_rate=sizes.learning_rate,
        weight_decay=settings.weight_decay,
        seed=fit_task.seed,
        mixed_precision=device.type == "cuda",
    )
    architecture = settings.architecture(shape)
    return _PaperTask(examples, architecture, settings, loop, device, fit_task.progress, fit_task.checkpoints)


def _folds(task: FitTask, count: int) -> tuple[Bool, Bool]:
    """(F, N) held out and trained; no folds for a single case."""
    count = min(count, len(task.y))
    if count < 2:
        return np.zeros((0, len(task.y)), np.bool_), np.zeros((0, len(task.y)), np.bool_)
    folds = task.folds(count)
    return folds.held_out, folds.trained


def _fit_folds(task: _PaperTask, held_out: Bool, trained: Bool) -> tuple[list[TrainingHistory], list[PaperNet]]:
    """All folds, or those up to an interruption."""
    loop = _fold_loop(task)
    histories: list[TrainingHistory] = []
    nets: list[PaperNet] = []
    for fold in range(len(held_out)):
        inside, outside = (torch.from_numpy(np.flatnonzero(part[fold])) for part in (trained, held_out))
        validate = (
            partial(_validate, examples=task.examples, chosen=outside, by_accuracy=False) if len(outside) else None
        )
        net, history = _fit_net(task, loop, inside, validate, f"fold {fold + 1}")
        histories.append(history)
        nets.append(net)
        if history.interrupted:
            break
    return histories, nets


def _fold_loop(task: _PaperTask) -> LoopConfig:
    """With early stopping or, with few cases, a fixed number of epochs."""
    if len(task.examples) < FEW_CASES:
        return replace(task.loop, stop_after=-(-task.loop.epochs // 2))
    return replace(task.loop, patience=max(5, round(task.settings.patience_share * task.loop.epochs)))


def _fit_all(task: _PaperTask, loop: LoopConfig, test: Examples | None) -> tuple[PaperNet, TrainingHistory]:
    every = torch.arange(len(task.examples))
    if test is None:
        return _fit_net(task, loop, every, None, "all cases")
    validate = partial(_validate, examples=test, chosen=torch.arange(len(test)), by_accuracy=True)
    return _fit_net(task, loop, every, validate, "all cases")


def _fit_net(
    task: _PaperTask, loop: LoopConfig, chosen: Tensor, validate: Validate | None, stage: str
) -> tuple[PaperNet, TrainingHistory]:
    net = _initial_net(task)
    history = train_network(
        net,
        task.examples,
        loop,
        loss=_loss(task.settings),
        chosen=chosen,
        validate=validate,
        progress=task.progress,
        stage=stage,
        checkpoints=task.checkpoints,
    )
    return net, history


def _initial_net(task: _PaperTask) -> PaperNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.loop.seed)
        return PaperNet(task.architecture).to(task.device)


def _loss(settings: PaperSettings) -> Loss:
    weights = LossWeights(settings.lambda_orth, settings.lambda_ra if settings.use_rgc else 0.0)

    def loss(model: nn.Module, batch: Examples, share: float) -> Tensor:
        warmed = weights.warmed(share / max(settings.warmup_share, 1e-6))
        return objective(model(batch.x, batch.mask), batch.y, warmed)

    return loss


def _validate(net: nn.Module, *, examples: Examples, chosen: Tensor, by_accuracy: bool) -> Validation:
    """The loss is the tempered log loss or, `by_accuracy`, the error rate with the log loss as tie-breaker."""
    assert isinstance(net, PaperNet)
    logits, y, weight = predict_logits(net, examples, chosen), examples.y[chosen], examples.weight[chosen]
    share = weight / weight.sum().clamp_min(1e-12)
    nll = tempered_loss(logits, y, share)
    accuracy = float(((logits.argmax(dim=1) == y) * share.double()).sum())
    return Validation(1 - accuracy + 1e-6 * nll if by_accuracy else nll, {"validation_accuracy": accuracy}, logits)


def tempered_loss(logits: Tensor, y: Tensor, share: Tensor) -> float:
    """The log loss at the best of some temperatures: overconfidence is corrected by the calibration later."""
    scale = torch.logspace(-2, 1, 25).view(-1, 1, 1)
    losses = -functional.log_softmax(scale * logits, dim=-1).gather(2, y.view(1, -1, 1).expand(25, -1, 1))  # (25, V, 1)
    return float((losses[..., 0] * share).sum(dim=1).min())


def predict_logits(net: PaperNet, examples: Examples, chosen: Tensor) -> Tensor:
    """(V, Y) of the chosen examples, on the CPU, in passes of bounded size."""
    serving = ServingNet(net)
    device = next(net.parameters()).device
    passes = torch.split(chosen, windows_per_pass(net.config, examples.x.shape[2]))
    batches = (examples.subset(index, device) for index in passes)
    return torch.cat([torch.from_numpy(serving.forward(batch.x, batch.mask).logits) for batch in batches])


def _out_of_fold(histories: list[TrainingHistory], held_out: Bool, epoch: int, n_classes: int) -> Float64:
    oof = np.zeros((held_out.shape[1], n_classes))
    for history, left_out in zip(histories, held_out, strict=False):
        if len(history.validation) >= epoch:
            oof[left_out] = history.validation[epoch - 1].double().numpy()
    return np.asarray(oof - oof.mean(axis=1, keepdims=True))


def _examples(cases: Cases, y: Int64, weight: Float64) -> Examples:
    if len(cases) != len(y):
        raise DataError(f"{len(cases)} cases have {len(y)} labels")
    return Examples(
        torch.from_numpy(np.ascontiguousarray(cases.x)),
        torch.from_numpy(np.ascontiguousarray(cases.mask)),
        torch.from_numpy(np.ascontiguousarray(y, dtype=np.int64)),
        torch.from_numpy(np.ascontiguousarray(weight, dtype=np.float32)),
    )


def _case_weights(task: FitTask, settings: PaperSettings) -> Float64:
    """Class weights times case weights, with mean 1."""
    weights = task.case_weights()
    if settings.class_weight != "balanced":
        return weights
    totals = np.bincount(task.y, weights=weights, minlength=task.n_classes)
    return normalize_weights(weights / np.maximum(totals[task.y], 1e-12))


def _source_fit(
    net: PaperNet, oof: Float64, task: _PaperTask, histories: list[TrainingHistory], epoch: int, protocol: str
) -> SourceFit[PaperSource]:
    """`oof` is 0 for cases whose fold was not fitted."""
    report: dict[str, Json] = {
        "protocol": protocol,
        "epochs": epoch,
        "planned_epochs": task.loop.epochs,
        "interrupted": any(history.interrupted for history in histories),
        "architecture": task.architecture.to_dict(),
        "settings": asdict(task.settings),
        "batch_size": task.loop.batch_size,
        "learning_rate": task.loop.learning_rate,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "curves": [history.curves for history in histories],
    }
    patching = Patching(task.architecture.patch_length, task.architecture.patch_stride)
    return SourceFit("paper", PaperSource(net, task.device), oof, report, patching)
