"""The memory that is announced: it follows what is trained, and stays bounded where the fits do."""

from pathlib import Path

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.recipes.memory import LIBRARIES, estimate_peak_bytes, format_size
from anchormoe.recipes.settings import RecipeSettings
from tests.bench.bench_size import SHAPES, announced_gb

GIGABYTE = 1 << 30
PAGE = Path(__file__).parents[4] / "docs/results/size.md"


def cases(count: int, channels: int, steps: int) -> Cases:
    """Of any size without the memory for it."""
    shape = (count, channels, steps)
    x, mask = np.broadcast_to(np.float32(0), shape), np.broadcast_to(np.True_, shape)
    return Cases(x, mask, np.full(count, steps, np.int64))


def needed(shape: tuple[int, int, int], **settings: object) -> float:
    return estimate_peak_bytes(cases(*shape), RecipeSettings(**settings)) / GIGABYTE  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(50_000, 10, 50), (100, 1_400, 200), (128, 6, 18_000), (4_000, 10, 100)])
@pytest.mark.parametrize("recipe", ["joint", "kernel", "experts", "paper"])
def test_the_largest_sets_fit_into_six_gigabytes(shape: tuple[int, int, int], recipe: str) -> None:
    assert LIBRARIES / GIGABYTE < needed(shape, recipe=recipe) < 6


def test_all_members_that_are_trained_count_not_those_that_are_kept() -> None:
    """Twelve members instead of six: what the fit takes beside the libraries doubles."""
    libraries = LIBRARIES / GIGABYTE
    balanced, accurate = (needed((180, 24, 51), recipe="experts", profile=name) for name in ("balanced", "accurate"))
    assert (accurate - libraries) / (balanced - libraries) == pytest.approx(2, abs=0.1)


def test_more_than_four_thousand_cases_need_no_gram_matrix_of_all() -> None:
    assert needed((50_000, 4, 24), recipe="kernel") < needed((4_000, 4, 24), recipe="kernel")


def test_test_counts_five_bytes_per_entry() -> None:
    train, test = cases(100, 10, 100), cases(1_000, 10, 100)
    alone, both = (estimate_peak_bytes(train, RecipeSettings(), test=one) for one in (None, test))
    assert both - alone == 5 * 1_000_000


def test_copies_without_a_channel_count() -> None:
    assert needed((2_000, 10, 100), channel_dropout=1) > needed((2_000, 10, 100)) + 0.5


def test_a_size_is_readable() -> None:
    assert format_size(3 * GIGABYTE // 2) == "1.5 GB"


def test_what_is_announced_bears_comparison_with_what_was_measured() -> None:
    """Of every row of the page of sizes: not less than its peak, and at most half as much again."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    measured = {(row[0], *row[2].split()): float(row[4].removesuffix(" GB")) for row in rows if row[0] in SHAPES}
    assert measured
    for (name, recipe, profile), peak in measured.items():
        assert peak <= announced_gb(name, recipe, profile) <= 1.5 * peak, (name, recipe)
