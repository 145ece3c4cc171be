"""Estimates the peak memory of a training by a rule; tests/bench/bench_size.py compares it with measurements. Pure.

1. Libraries, compiled kernels, and what the heap does not return: 0.92 GB.
2. The data: 5 bytes per entry (value and mask) of TRAIN and TEST as loaded; for the scaled TRAIN 4 more, or with
   channel dropout 9 more for it and for each copy.
3. The largest of what happens one after the other:
   scaling, and the ranges that each fold is compared with: a copy of TRAIN in 9 bytes per entry, and a chunk of
   entries (or one channel, if that is more) in double precision, five times;
   kernel: the quantized cases (and those of a fold), the features of up to 4,000 cases, a Gram matrix per block; for
   more cases the features of those that blocks are chosen on, and six matrices of the chosen features;
   experts: a batch of all members that are trained, five times, what its tokens read, and what a step stores per
   token and channel; with many channels also a copy of those that any member reads;
   paper: a batch of patches (or those of a pass, if they are more) ten times, and what a step stores per patch.
"""

from anchormoe.cases import Cases
from anchormoe.model.normalizer import CHUNK_ENTRIES
from anchormoe.recipes.settings import RecipeSettings

_GIGABYTE = 1 << 30
LIBRARIES = int(0.92 * _GIGABYTE)
_DOUBLE_COPIES = 5 * 8
_QUANTIZED_BYTES = 20
"""Per entry: integers with their mask, the intermediate steps, and the same for the cases of a fold."""
_FEATURES = {"fast": 2_200, "balanced": 12_000, "accurate": 45_000}
_GRAMS = 14
"""Blocks, and the working memory of an eigenvalue problem."""
_PRIMAL_MATRICES = 6
_BATCH_COPIES = 5
_PATCH_COPIES = 10
"""Six at once; the heap keeps gaps of their sizes."""
_STORED_PER_TOKEN = 60
"""Vectors of the width that a training step stores for each token or patch."""


def estimate_peak_bytes(cases: Cases, settings: RecipeSettings, *, test: Cases | None = None) -> int:
    """Of the whole process."""
    entries = cases.x.size * (1 + settings.channel_dropout)
    count = len(cases) * (1 + settings.channel_dropout)
    fits = {"kernel": _kernel_bytes, "experts": _experts_bytes, "paper": _paper_bytes}
    chosen = ("kernel", "experts") if settings.recipe == "joint" else (settings.recipe,)
    data = 5 * cases.x.size + (4 if entries == cases.x.size else 9) * entries + (5 * test.x.size if test else 0)
    largest = max(_scaling_bytes(cases), *(fits[name](cases, count, settings) for name in chosen))
    return int(LIBRARIES + data + largest)


def _scaling_bytes(cases: Cases) -> float:
    at_once = max(min(CHUNK_ENTRIES, cases.x.size), cases.x.size / cases.channels)
    return 9 * cases.x.size + _DOUBLE_COPIES * at_once


def _kernel_bytes(cases: Cases, count: int, settings: RecipeSettings) -> float:
    from anchormoe.kernels.fit import MAX_DUAL_CASES
    from anchormoe.recipes.fitters import kernel_settings

    sizes = kernel_settings(settings).sizes
    rows = count if count <= MAX_DUAL_CASES else sizes.selection_cases
    dual = 4 * rows * _FEATURES[settings.profile] + _GRAMS * 8 * rows * rows
    primal = _PRIMAL_MATRICES * 8 * sizes.primal_features**2 if count > MAX_DUAL_CASES else 0
    return float(_QUANTIZED_BYTES * count * cases.channels * cases.steps + max(dual, primal))


def _experts_bytes(cases: Cases, count: int, settings: RecipeSettings) -> float:
    from anchormoe.experts.geometry import Geometry, positions_for
    from anchormoe.experts.loop import batch_size
    from anchormoe.recipes.fitters import experts_settings

    chosen = experts_settings(settings)
    members = chosen.folds * len(chosen.variants)
    read = min(cases.channels, chosen.channels)
    geometry = Geometry.for_length(cases.steps, positions=positions_for(read, chosen.tokens))
    steps = geometry.coarse_steps(cases.steps)
    batch = members * batch_size(count, members * read * steps, chosen)
    positions = batch * geometry.positions(cases.steps)
    floats = _BATCH_COPIES * batch * steps * read + positions * read * (2 * geometry.kernel + 4 * chosen.value_width)
    floats += positions * _STORED_PER_TOKEN * chosen.width
    used = min(cases.channels, members * read)
    chosen_copy = 5 * count * used * cases.steps if cases.channels > read else 0
    pooled = 10 * count * used * cases.steps if geometry.pool > 1 else 0
    return float(chosen_copy + pooled + 4 * floats)


def _paper_bytes(cases: Cases, count: int, settings: RecipeSettings) -> float:
    from anchormoe.paper.patches import PatchGrid
    from anchormoe.paper.settings import DataShape
    from anchormoe.paper.source import PATCHES_PER_PASS
    from anchormoe.recipes.fitters import paper_settings

    sizes = paper_settings(settings).sizes_for(DataShape(cases.steps, cases.channels, 2, count))
    patches = sizes.batch_size * PatchGrid(sizes.patch_length, sizes.patch_stride).count(cases.steps)
    read = max(patches, PATCHES_PER_PASS) * sizes.patch_length * cases.channels
    return float(4 * _PATCH_COPIES * read + 4 * _STORED_PER_TOKEN * patches * sizes.width)


def format_size(size: int) -> str:
    return f"{size / _GIGABYTE:.1f} GB"
