"""Explainers as benchmark methods: each explains a model that all explainers of a set and seed share."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from anchormoe.benchmark.explainers.registry import EXPLAINERS, Explainer
from anchormoe.benchmark.methods import Effort, Method, MethodResult, register_method
from anchormoe.benchmark.recipe_digest import code_digest, digest_files
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.loading import load_dataset

if TYPE_CHECKING:
    from anchormoe.benchmark.explainer_scores import Subject
    from anchormoe.benchmark.runner import LoadSplit

MODELS = {"joint": "our default model", "paper": "the paper's net"}
EVIDENCE = "evidence"
CALLED = tuple(one for one in EXPLAINERS if one.needs == "logits")
"""What explains a model without gradients: our default one."""
SETS = (
    "synthetic:localized", "synthetic:composition", "synthetic:distractor", "synthetic:multi-distractor",
    "uea:NATOPS", "uea:Cricket", "uea:CharacterTrajectories",
)  # fmt: skip
BY_CAPTUM = ("vanilla", "input-gradient", "integrated-gradients", "deeplift", "deepshap")
SUBJECTS = 2
"""Fitted models that are kept: both of the current set and seed."""
_FOLDER = Path(__file__).parent
_METRICS = (
    "removal", "gap", "rankings", "occlusion", "retention", "evaluator_net", "localization", "pooled_localization",
)  # fmt: skip


def method_name(model: str, explainer: str) -> str:
    return f"explain-{model}-{explainer}"


METHODS = (
    *[method_name(model, EVIDENCE) for model in MODELS],
    *[method_name("paper", one.name) for one in EXPLAINERS],
    *[method_name("joint", one.name) for one in CALLED],
)


@dataclass(frozen=True, slots=True)
class ExplainerMethod:
    """`explainer` is None for the model's own evidence, which is read from its forward pass."""

    model: str
    explainer: Explainer | None

    def run(self, train: Dataset, test: Dataset, seed: int, effort: Effort) -> MethodResult:
        import torch

        from anchormoe.benchmark.explainer_scores import score_evidence, score_explainer

        torch.set_num_threads(effort.n_jobs)
        subject = _subject(self.model, train, test, seed, effort)
        scores = score_evidence(subject) if self.explainer is None else score_explainer(subject, self.explainer)
        return MethodResult(
            subject.predicted, scores.prepare_s, scores.explain_s,
            metrics=scores.metrics, facts=scores.facts | {"model_fit_s": round(subject.fit_s, 1)},
        )  # fmt: skip

    def skip_reason(self, train: Dataset, test: Dataset) -> str | None:
        if self._uses_captum and not _captum_version():
            return "captum is not installed; pip install 'anchormoe-agent[eval]'"
        return None

    @property
    def _uses_captum(self) -> bool:
        return self.explainer is not None and self.explainer.name in BY_CAPTUM

    def version(self, effort: Effort) -> str:
        library = f", captum {_captum_version() or 'missing'}" if self._uses_captum else ""
        return f"{_own_digest(self.explainer)}, code {code_digest(self.model)}, {self.model} {effort.profile}{library}"


def _captum_version() -> str | None:
    try:
        return version("captum")
    except PackageNotFoundError:
        return None


@lru_cache(maxsize=64)
def _own_digest(explainer: Explainer | None) -> str:
    """Of the explainer's own file and of what all share: another explainer's change does not void a run."""
    shared = [_FOLDER / "explainer_scores.py"]
    shared += [_FOLDER / "explainers" / f"{name}.py" for name in ("task", "models")]
    shared += [_FOLDER.parent / "metrics" / f"{name}.py" for name in _METRICS]
    own = [] if explainer is None else [_FOLDER / "explainers" / f"{explainer.name.replace('-', '_')}.py"]
    return digest_files([*shared, *own])


_KEPT: dict[tuple[str, int, int, str], tuple[Dataset, "Subject"]] = {}


def _subject(recipe: str, train: Dataset, test: Dataset, seed: int, effort: Effort) -> "Subject":
    """Fitted once for all explainers; the data set is kept with it, or its number could be another's."""
    from anchormoe.benchmark.explainer_scores import fit_subject

    key = (recipe, id(train), seed, effort.profile)
    if key not in _KEPT:
        while len(_KEPT) >= SUBJECTS:
            _KEPT.pop(next(iter(_KEPT)))
        _KEPT[key] = (train, fit_subject(recipe, Split(train, test), seed, effort))
    return _KEPT[key][1]


def explainer_loader(data_dir: Path | None) -> "LoadSplit":
    """Loads splits by `source:set` and seed."""

    @lru_cache(maxsize=1)
    def load(spec: str, seed: int) -> Split:
        return load_dataset(spec, data_dir=data_dir, seed=seed)

    return lambda spec, seed: load(spec, seed if spec.startswith("synthetic:") else 0)


def _register(model: str, explainer: Explainer | None) -> Method:
    own = ExplainerMethod(model, explainer)
    name, label = (EVIDENCE, "AnchorMoE evidence") if explainer is None else (explainer.name, explainer.label)
    return register_method(
        Method(method_name(model, name), f"{label} of {MODELS[model]}", own.run, own.version, own.skip_reason)
    )


for _model in MODELS:
    _register(_model, None)
for _each in EXPLAINERS:
    _register("paper", _each)
for _each in CALLED:
    _register("joint", _each)
