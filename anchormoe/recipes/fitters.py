"""One call to fit each kind of source from the same view of TRAIN."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.errors import DataError
from anchormoe.evidence import Json, Source
from anchormoe.model.additive import Patching
from anchormoe.progress import ProgressCallback
from anchormoe.recipes.settings import RecipeSettings, overridden
from anchormoe.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from anchormoe.kernels.fit import KernelFit


@dataclass(frozen=True, slots=True)
class FitTask:
    """TRAIN as the fits see it: normalized cases, class-weighted samples."""

    cases: Cases
    y: Int64
    n_classes: int
    groups: Int64 | None
    sample_weight: Float64 | None
    seed: int
    progress: ProgressCallback
    test: tuple[Cases, Int64] | None = None
    """normalized TEST, for the optimistic protocol only"""
    checkpoints: Checkpoints | None = None

    def part(self, chosen: Int64) -> "FitTask":
        """The same view of some of the cases."""
        return replace(
            self,
            cases=self.cases.subset(chosen),
            y=self.y[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            sample_weight=None if self.sample_weight is None else self.sample_weight[chosen],
        )


@dataclass(frozen=True, slots=True)
class SourceFit:
    """A fitted source under its name, its out-of-fold logits (N, Y), and what there is to report."""

    name: str
    source: Source
    oof_logits: Float64
    report: dict[str, Json]
    patching: Patching | None = None
    """of a source whose units are patches"""


Fitter = Callable[[FitTask, RecipeSettings], SourceFit]


def kernel_settings(settings: RecipeSettings) -> Any:
    from anchormoe.kernels.settings import KernelSettings

    chosen = KernelSettings(profile=settings.profile, objective=settings.objective, alignment=settings.alignment)
    return overridden(chosen, settings.kernel, "kernel")


def experts_settings(settings: RecipeSettings) -> Any:
    from anchormoe.experts.settings import settings_for

    chosen = settings_for(settings.profile, settings.objective, settings.alignment)
    changed = overridden(chosen, settings.experts, "experts")
    if changed.folds < 2:  # members would be judged on what they were trained on
        raise DataError(f"experts.folds: must be at least 2, not {changed.folds}")
    return changed


def paper_settings(settings: RecipeSettings) -> Any:
    from anchormoe.paper.settings import PaperSettings

    return overridden(PaperSettings(), settings.paper, "paper")


def require_settings(settings: RecipeSettings) -> None:
    """Raises DataError or ModelError now, not after hours of training."""
    for build in (kernel_settings, experts_settings, paper_settings):
        build(settings)


def _fit_kernel(training: FitTask, settings: RecipeSettings) -> SourceFit:
    """Its closed form gains nothing by several processes: the first one fits, the others take its result."""
    import torch

    from anchormoe.kernels.checkpoint import from_checkpoint, to_checkpoint
    from anchormoe.training import distributed
    from anchormoe.training.checkpoints import StageCheckpoint

    if distributed.world() == 1:
        fit = _kernel_fit(training, settings)
    else:
        device = torch.device(settings.device)
        sent = distributed.broadcast_from_rank0(
            lambda: to_checkpoint(_kernel_fit(training, settings)).to_bytes(), device
        )
        fit = from_checkpoint(StageCheckpoint.of_bytes(sent))
    return SourceFit("kernel", fit.source, fit.oof_logits, dict(fit.report))


def _kernel_fit(training: FitTask, settings: RecipeSettings) -> "KernelFit":
    """An interrupt once the fit itself is done keeps it, with leave-one-out for what the folds would have said."""
    from anchormoe.kernels import cross_validation
    from anchormoe.kernels.checkpoint import load_or_fit
    from anchormoe.kernels.fit import KernelFit, fit_kernel
    from anchormoe.training.folds import in_time_blocks

    def fitted(part: FitTask) -> KernelFit:
        return fit_kernel(
            part.cases, part.y, part.n_classes, settings=kernel_settings(settings), groups=in_time_blocks(part.groups),
            sample_weight=part.sample_weight, seed=part.seed, progress=part.progress,
        )  # fmt: skip

    fit = load_or_fit(training.checkpoints, lambda: fitted(training))
    logits, report = fit.oof_logits, dict(fit.report)
    if cross_validation.wanted(training):
        try:
            logits = cross_validation.held_out_logits(training, lambda part: fitted(part).source.logits)
        except KeyboardInterrupt:
            report["interrupted"] = True
    return KernelFit(fit.source, logits, report)


def _fit_experts(training: FitTask, settings: RecipeSettings) -> SourceFit:
    from anchormoe.experts.fit import fit_committee

    fit = fit_committee(
        training.cases, training.y, training.n_classes, settings=experts_settings(settings), groups=training.groups,
        sample_weight=training.sample_weight, seed=training.seed, progress=training.progress, device=settings.device,
        checkpoints=training.checkpoints,
    )  # fmt: skip
    return SourceFit("experts", fit.source, fit.oof_logits, dict(fit.report))


def _fit_paper(training: FitTask, settings: RecipeSettings) -> SourceFit:
    from anchormoe.paper.fit import fit_paper

    fit = fit_paper(
        training.cases, training.y, training.n_classes, settings=paper_settings(settings), groups=training.groups,
        sample_weight=training.sample_weight, seed=training.seed, progress=training.progress, device=settings.device,
        test=training.test, checkpoints=training.checkpoints,
    )  # fmt: skip
    patching = Patching(fit.source.architecture.patch_length, fit.source.architecture.patch_stride)
    return SourceFit("paper", fit.source, fit.oof_logits, dict(fit.report), patching)


FITTERS: Mapping[str, Fitter] = {"kernel": _fit_kernel, "experts": _fit_experts, "paper": _fit_paper}
