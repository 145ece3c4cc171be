"""How much memory a training will need at its peak, by a written rule; tests/bench/bench_size.py compares. Pure.

1. Libraries and compiled kernels: 0.9 GB.
2. The data, 5 bytes per entry (value and mask) as they came, 4 scaled, and per copy that lacks a channel 9 more.
3. The largest of the recipe's fits; they run one after the other.
   kernel: the cases on the grid (and those of a fold), the features of at most 4,000 cases, a Gram matrix per block;
   beyond 4,000 cases the features of those that blocks are chosen on, and five matrices of the chosen features.
   experts: a batch of all members (trained, not only those kept) in six forms, and what a step keeps per token.
   paper: a batch of patches in four forms, and what a step keeps per patch.
"""

from anchormoe.cases import Cases
from anchormoe.recipe_settings import RecipeSettings

_GIGABYTE = 1 << 30
_LIBRARIES = 0.9 * _GIGABYTE
_GRID_BYTES = 20
"""Per entry: integers with their mask, the steps on the way there, and the same for the cases of a fold."""
_FEATURES = {"fast": 2_200, "balanced": 12_000, "accurate": 45_000}
_GRAMS = 14
"""Blocks, and what an eigenvalue problem takes beside them."""
_DUAL_CASES = 4_000
_FORMS = 6
_KEPT_PER_TOKEN = 60
"""Vectors of the width that a training step keeps for each token or patch."""


def needed_bytes(cases: Cases, settings: RecipeSettings) -> int:
    """At the peak, for the whole process."""
    entries = cases.x.size * (1 + settings.channel_dropout)
    count = len(cases) * (1 + settings.channel_dropout)
    fits = {"kernel": _kernel_bytes, "experts": _experts_bytes, "paper": _paper_bytes}
    chosen = ("kernel", "experts") if settings.recipe == "joint" else (settings.recipe,)
    data = 5 * cases.x.size + (4 if entries == cases.x.size else 9) * entries
    return int(_LIBRARIES + data + max(fits[name](cases, count, settings) for name in chosen))


def _kernel_bytes(cases: Cases, count: int, settings: RecipeSettings) -> float:
    from anchormoe.source_fits import kernel_settings

    sizes = kernel_settings(settings).sizes
    rows = count if count <= _DUAL_CASES else sizes.selection_cases
    dual = 4 * rows * _FEATURES[settings.profile] + _GRAMS * 8 * rows * rows
    primal = 5 * 8 * sizes.primal_features**2 if count > _DUAL_CASES else 0
    return float(_GRID_BYTES * count * cases.channels * cases.steps + max(dual, primal))


def _experts_bytes(cases: Cases, count: int, settings: RecipeSettings) -> float:
    from anchormoe.experts.tokens import Geometry
    from anchormoe.experts.training import batch_size
    from anchormoe.source_fits import experts_settings

    chosen = experts_settings(settings)
    members = chosen.folds * len(chosen.variants)
    geometry = Geometry.for_length(cases.steps, tokens=chosen.tokens)
    values = members * cases.channels * geometry.coarse(cases.steps)
    batch = batch_size(count, values, chosen)
    tokens = members * batch * geometry.coarse(cases.steps) / geometry.stride
    pooled = 10 * count * cases.channels * cases.steps if geometry.pool > 1 else 0
    return float(pooled + 4 * _FORMS * batch * values + 4 * _KEPT_PER_TOKEN * tokens * chosen.width)


def _paper_bytes(cases: Cases, count: int, settings: RecipeSettings) -> float:
    from anchormoe.defaults import DataShape
    from anchormoe.patches import PatchGrid
    from anchormoe.source_fits import paper_settings

    sizes = paper_settings(settings).filled(DataShape(cases.steps, cases.channels, 2, count))
    patches = sizes.batch_size * PatchGrid(sizes.patch_length, sizes.patch_stride).count(cases.steps)
    read = patches * sizes.patch_length * cases.channels
    return float(4 * 4 * read + 4 * _KEPT_PER_TOKEN * patches * sizes.width)


def readable(size: int) -> str:
    return f"{size / _GIGABYTE:.1f} GB"
