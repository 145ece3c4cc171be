"""Fits the paper recipe honestly: folds of TRAIN choose the epoch, all of TRAIN is then fitted with it."""

from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.evidence import Json, Patching
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.loop import Examples, LoopConfig, Loss, TrainingHistory, Validate, Validation, train_network
from anchormoe.paper.losses import LossWeights, objective
from anchormoe.paper.net import PaperNet
from anchormoe.paper.serving import ServingNet
from anchormoe.paper.settings import DataShape, PaperSettings
from anchormoe.paper.source import PaperSource, windows_per_pass
from anchormoe.progress import ProgressCallback
from anchormoe.training.checkpoints import Checkpoints
from anchormoe.training.folds import FEW_CASES, make_folds
from anchormoe.training.task import FitTask, SourceFit, normalize_weights


@dataclass(frozen=True, slots=True)
class _Task:
    """Everything a training run of this fit shares with the others."""

    examples: Examples
    architecture: ModelConfig
    settings: PaperSettings
    plan: LoopConfig
    device: torch.device
    progress: ProgressCallback
    checkpoints: Checkpoints | None


def fit_paper(fit_task: FitTask, settings: PaperSettings) -> SourceFit[PaperSource]:
    """Fits normalized cases. With `test` the epoch is the one best on TEST: the authors' protocol, `optimistic`.

    1. the folds 2. the epoch with the least validation loss over all folds (half of the epochs below 60 cases)
    3. a fit of all cases up to that epoch.
    A KeyboardInterrupt keeps the best so far: the net of the stage it came in.
    """
    y, n_classes, test = fit_task.y, fit_task.n_classes, fit_task.test
    task = _task(fit_task, _examples(fit_task.cases, y, _case_weights(fit_task, settings)), settings)
    held_out, trained = _folds(y, settings.folds, fit_task.groups, fit_task.seed)
    courses, nets = _fit_folds(task, held_out, trained)
    epoch = _fold_plan(task).last_epoch if len(y) < FEW_CASES else chosen_epoch(courses)
    oof = _out_of_fold(courses, held_out, epoch, n_classes)
    if any(course.interrupted for course in courses):
        return _fit_of(nets[-1], oof, task, courses, courses[-1].best_epoch, "honest")
    if test is not None:
        net, course = _fit_all(task, task.plan, _examples(*test, np.ones(len(test[1]))))
        return _fit_of(net, oof, task, [*courses, course], course.best_epoch, "optimistic")
    net, course = _fit_all(task, replace(task.plan, stop_after=epoch), None)
    return _fit_of(net, oof, task, [*courses, course], course.epochs, "honest")


def chosen_epoch(courses: list[TrainingHistory]) -> int:
    """The epoch (from 1) with the least mean validation loss, of those that every fold reached."""
    reached = min(len(course.validation) for course in courses)
    if reached == 0:
        return 1
    losses = [[figures["validation_loss"] for figures in course.curves[:reached]] for course in courses]
    return int(np.argmin(np.mean(losses, axis=0))) + 1


def _task(fit_task: FitTask, examples: Examples, settings: PaperSettings) -> _Task:
    device = torch.device(fit_task.device)
    shape = DataShape(examples.x.shape[2], examples.x.shape[1], fit_task.n_classes, len(examples))
    sizes = settings.sizes_for(shape)
    plan = LoopConfig(
        epochs=sizes.epochs,
        batch_size=sizes.batch_size,
        learning_rate=sizes.learning_rate,
        weight_decay=settings.weight_decay,
        seed=fit_task.seed,
        mixed_precision=device.type == "cuda",
    )
    architecture = settings.architecture(shape)
    return _Task(examples, architecture, settings, plan, device, fit_task.progress, fit_task.checkpoints)


def _folds(y: Int64, folds: int, groups: Int64 | None, seed: int) -> tuple[Bool, Bool]:
    """(F, N) held out and trained; no fold at all for a single case."""
    folds = min(folds, len(y))
    if folds < 2:
        return np.zeros((0, len(y)), np.bool_), np.zeros((0, len(y)), np.bool_)
    return make_folds(y, folds=folds, groups=groups, seed=seed)


def _fit_folds(task: _Task, held_out: Bool, trained: Bool) -> tuple[list[TrainingHistory], list[PaperNet]]:
    """Up to the fold that is interrupted."""
    plan = _fold_plan(task)
    courses: list[TrainingHistory] = []
    nets: list[PaperNet] = []
    for fold in range(len(held_out)):
        own, other = (torch.from_numpy(np.flatnonzero(chosen)) for chosen in (trained[fold], held_out[fold]))
        seen = partial(_validation, examples=task.examples, chosen=other, by_accuracy=False) if len(other) else None
        net, course = _fit_one(task, plan, own, seen, f"fold {fold + 1}")
        courses.append(course)
        nets.append(net)
        if course.interrupted:
            break
    return courses, nets


def _fold_plan(task: _Task) -> LoopConfig:
    """With early stopping; with few cases a fixed number of epochs."""
    if len(task.examples) < FEW_CASES:
        return replace(task.plan, stop_after=-(-task.plan.epochs // 2))
    return replace(task.plan, patience=max(5, round(task.settings.patience_share * task.plan.epochs)))


def _fit_all(task: _Task, plan: LoopConfig, test: Examples | None) -> tuple[PaperNet, TrainingHistory]:
    every = torch.arange(len(task.examples))
    if test is None:
        return _fit_one(task, plan, every, None, "all cases")
    seen = partial(_validation, examples=test, chosen=torch.arange(len(test)), by_accuracy=True)
    return _fit_one(task, plan, every, seen, "all cases")


def _fit_one(
    task: _Task, plan: LoopConfig, chosen: Tensor, validate: Validate | None, stage: str
) -> tuple[PaperNet, TrainingHistory]:
    net = _new_net(task)
    course = train_network(
        net,
        task.examples,
        plan,
        loss=_loss(task.settings),
        chosen=chosen,
        validate=validate,
        progress=task.progress,
        stage=stage,
        checkpoints=task.checkpoints,
    )
    return net, course


def _new_net(task: _Task) -> PaperNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.plan.seed)
        return PaperNet(task.architecture).to(task.device)


def _loss(settings: PaperSettings) -> Loss:
    weights = LossWeights(settings.lambda_orth, settings.lambda_ra if settings.use_rgc else 0.0)

    def loss(model: nn.Module, batch: Examples, share: float) -> Tensor:
        warmed = weights.warmed(share / max(settings.warmup_share, 1e-6))
        return objective(model(batch.x, batch.mask), batch.y, warmed)

    return loss


def _validation(net: nn.Module, *, examples: Examples, chosen: Tensor, by_accuracy: bool) -> Validation:
    """Loss is the tempered log-loss; the optimistic protocol takes the error rate, and the log-loss between equals."""
    assert isinstance(net, PaperNet)
    logits, y, weight = predicted_logits(net, examples, chosen), examples.y[chosen], examples.weight[chosen]
    share = weight / weight.sum().clamp_min(1e-12)
    nll = tempered_loss(logits, y, share)
    accuracy = float(((logits.argmax(dim=1) == y) * share.double()).sum())
    return Validation(1 - accuracy + 1e-6 * nll if by_accuracy else nll, {"validation_accuracy": accuracy}, logits)


def tempered_loss(logits: Tensor, y: Tensor, share: Tensor) -> float:
    """The log-loss with the best of some temperatures: calibration comes later, overconfidence does not count here."""
    scale = torch.logspace(-2, 1, 25).view(-1, 1, 1)
    losses = -functional.log_softmax(scale * logits, dim=-1).gather(2, y.view(1, -1, 1).expand(25, -1, 1))  # (25, V, 1)
    return float((losses[..., 0] * share).sum(dim=1).min())


def predicted_logits(net: PaperNet, examples: Examples, chosen: Tensor) -> Tensor:
    """(V, Y) of the chosen examples, on the CPU, in passes of bounded size."""
    serving = ServingNet(net)
    device = next(net.parameters()).device
    passes = torch.split(chosen, windows_per_pass(net.config, examples.x.shape[2]))
    batches = (examples.subset(index, device) for index in passes)
    return torch.cat([torch.from_numpy(serving.forward(batch.x, batch.mask).logits) for batch in batches])


def _out_of_fold(courses: list[TrainingHistory], held_out: Bool, epoch: int, n_classes: int) -> Float64:
    oof = np.zeros((held_out.shape[1], n_classes))
    for course, left_out in zip(courses, held_out, strict=False):
        if len(course.validation) >= epoch:
            oof[left_out] = course.validation[epoch - 1].double().numpy()
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


def _fit_of(
    net: PaperNet, oof: Float64, task: _Task, courses: list[TrainingHistory], epoch: int, protocol: str
) -> SourceFit[PaperSource]:
    """`oof` is 0 for cases that no fold got to."""
    report: dict[str, Json] = {
        "protocol": protocol,
        "epochs": epoch,
        "planned_epochs": task.plan.epochs,
        "interrupted": any(course.interrupted for course in courses),
        "architecture": task.architecture.to_dict(),
        "settings": asdict(task.settings),
        "batch_size": task.plan.batch_size,
        "learning_rate": task.plan.learning_rate,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "curves": [course.curves for course in courses],
    }
    patching = Patching(task.architecture.patch_length, task.architecture.patch_stride)
    return SourceFit("paper", PaperSource(net, task.device), oof, report, patching)
