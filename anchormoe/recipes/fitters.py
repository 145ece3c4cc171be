"""How each kind of source is fitted: its settings from those of the recipe, and its fit function."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anchormoe.conversion import override
from anchormoe.evidence import Source
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.task import FitTask, SourceFit

if TYPE_CHECKING:
    from anchormoe.kernels.source import KernelSource

Fitter = Callable[[FitTask, RecipeSettings], SourceFit[Source]]
_LENGTHS = ("epochs", "min_steps", "max_steps")
"""Settings of the experts that decide how many steps they are trained for."""


def kernel_settings(settings: RecipeSettings) -> Any:
    from anchormoe.kernels.settings import KernelSettings

    chosen = KernelSettings(profile=settings.profile, objective=settings.objective, alignment=settings.alignment)
    return override(chosen, settings.kernel, "kernel")


def experts_settings(settings: RecipeSettings) -> Any:
    """Beside the kernel, experts are trained for half as many steps, unless the user says for how many.

    They take nine tenths of the time. With a third of TRAIN left out of six UEA sets and both variants kept, the blend
    was right about .911 of it with half of the steps and .910 with all; the kernel alone about .908. `localize` listens
    to the experts above all, and `accurate` has time: there they keep their steps.
    """
    from anchormoe.experts.settings import settings_for

    chosen = settings_for(settings.profile, settings.objective, settings.alignment)
    overridden = override(chosen, settings.experts, "experts")
    if settings.recipe != "joint" or settings.objective == "localize" or settings.profile == "accurate":
        return overridden
    halved = {name: getattr(chosen, name) // 2 for name in _LENGTHS}
    return replace(
        overridden, **(halved | {name: getattr(overridden, name) for name in settings.experts if name in halved})
    )


def paper_settings(settings: RecipeSettings) -> Any:
    from anchormoe.paper.settings import PaperSettings

    return override(PaperSettings(), settings.paper, "paper")


def require_settings(settings: RecipeSettings) -> None:
    """Raises DataError or ModelError now, not after hours of training."""
    for build in (kernel_settings, experts_settings, paper_settings):
        build(settings)


def _fit_kernel(task: FitTask, settings: RecipeSettings) -> SourceFit[Source]:
    """Several processes would not make its closed form faster: rank 0 fits and sends the result to the others."""
    import torch

    from anchormoe.kernels.checkpoint import from_checkpoint, to_checkpoint
    from anchormoe.training import distributed
    from anchormoe.training.checkpoints import StageCheckpoint

    if distributed.world() == 1:
        return _fit_kernel_with_folds(task, settings)
    message = distributed.broadcast_from_rank0(
        lambda: to_checkpoint(_fit_kernel_with_folds(task, settings)).to_bytes(), torch.device(task.device)
    )
    return from_checkpoint(StageCheckpoint.from_bytes(message))


def _fit_kernel_with_folds(task: FitTask, settings: RecipeSettings) -> "SourceFit[KernelSource]":
    """Out-of-fold logits come from fits on folds where `cross_validation` wants them, else from leave-one-out.

    An interrupt during the folds keeps the finished fit with its leave-one-out logits.
    """
    from anchormoe.kernels import cross_validation
    from anchormoe.kernels.checkpoint import load_or_fit
    from anchormoe.kernels.fit import fit_kernel

    chosen = kernel_settings(settings)
    fit = load_or_fit(task.checkpoints, lambda: fit_kernel(task, chosen))
    if not cross_validation.needs_folds(task):
        return fit
    try:
        logits = cross_validation.held_out_logits(task, lambda part: fit_kernel(part, chosen).source.logits)
    except KeyboardInterrupt:
        return replace(fit, report=fit.report | {"interrupted": True})
    return replace(fit, oof_logits=logits)


def _fit_experts(task: FitTask, settings: RecipeSettings) -> SourceFit[Source]:
    from anchormoe.experts.fit import fit_committee

    return fit_committee(task, experts_settings(settings))


def _fit_paper(task: FitTask, settings: RecipeSettings) -> SourceFit[Source]:
    from anchormoe.paper.fit import fit_paper

    return fit_paper(task, paper_settings(settings))


FITTERS: Mapping[str, Fitter] = {"kernel": _fit_kernel, "experts": _fit_experts, "paper": _fit_paper}
"""Functions that import their source when called: each needs torch or numba, and a recipe uses one or two."""
