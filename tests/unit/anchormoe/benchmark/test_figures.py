"""The figures: what they are drawn from, and that they are stored in both formats."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from anchormoe.benchmark.ablation import PAPER
from anchormoe.benchmark.figures.ablation_bars import _figures, draw_ablation
from anchormoe.benchmark.figures.draw import CAPTIONS, drawers, figures_page
from anchormoe.benchmark.figures.evidence import _runs, channel_space
from anchormoe.benchmark.figures.fitted import load_shown
from anchormoe.benchmark.figures.framework import draw_framework
from anchormoe.benchmark.figures.patch_times import measure_times
from anchormoe.benchmark.ledger import Entry
from anchormoe.data.synthetic import DESIGNS


def _entries(name: str, *, known: bool, variants: int = len(PAPER)) -> list[Entry]:
    located = {"localization": {"any_overlap": {"auprc": 0.5}}} if known else {}
    return [
        Entry(name, row.name, seed, "v", "d", metrics={"accuracy": accuracy} | located)
        for row in PAPER[:variants]
        for seed, accuracy in ((0, 0.8), (10, 0.6))
    ]


def test_a_figure_is_stored_as_svg_and_png_and_stays_the_same(tmp_path: Path) -> None:
    svg, png = draw_framework(tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    first = svg.read_bytes()
    draw_framework(tmp_path)
    assert svg.read_bytes() == first


def test_bars_are_means_over_seeds_of_sets_with_every_variant() -> None:
    entries = _entries("uea:NATOPS", known=False) + _entries("uea:Cricket", known=False, variants=3)
    found = _figures(entries, "accuracy")
    assert list(found) == ["NATOPS"]
    assert found["NATOPS"][0].mean == pytest.approx(0.7)
    assert found["NATOPS"][0].deviation == pytest.approx(0.2 / 2**0.5)  # of .8 and .6, by n − 1
    assert _figures(entries, "auprc") == {}


def test_ablation_bars_are_drawn_or_left_out(tmp_path: Path) -> None:
    entries = _entries("uea:NATOPS", known=False) + _entries("synthetic:composition", known=True)
    assert all(path.stat().st_size > 1_000 for path in draw_ablation(entries, tmp_path))
    assert draw_ablation([], tmp_path) == []


def test_bands_are_the_runs_of_what_is_marked() -> None:
    assert _runs(np.array([True, False, True, True])) == [(0, 1), (2, 4)]
    assert _runs(np.zeros(3, np.bool_)) == []


def test_channels_are_so_far_apart_that_they_do_not_cross() -> None:
    signal = np.array([[0.0, -4.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 0.5]], np.float32)
    space = channel_space(signal)
    assert space == pytest.approx(1.05 * 6)  # the first falls by 4 where the second rises by 2
    placed = signal - space * np.arange(3)[:, None]
    assert (placed[:-1] > placed[1:]).all()
    assert channel_space(np.zeros((2, 5), np.float32)) == 3


def test_distractors_are_found_where_they_were_inserted() -> None:
    shown = load_shown("multi-distractor")
    per_case = shown.distractors.sum(axis=(1, 2))
    # Three motifs of 16 steps; some shapes are 0 at a step or two, and distractors may overlap.
    assert per_case.max() <= 16 * DESIGNS["multi-distractor"].distractors
    assert per_case.min() > 0
    assert load_shown("multi-distractor").split.train.cases.x.shape[0] == 300


def test_time_grows_with_the_number_of_patches() -> None:
    ours, attention = measure_times((8, 2048), turns=5)  # 256 times as many: no load of the machine hides that
    assert ours[1] > ours[0]
    assert attention[1] > attention[0]


def test_the_page_shows_the_figures_that_are_there(tmp_path: Path) -> None:
    draw_framework(tmp_path / "figures")
    page = figures_page(tmp_path / "figures", date(2026, 11, 18))
    assert "figures/framework.svg" in page
    assert "figures/anchors.svg" not in page
    missing = page.partition("## What is missing")[2]
    assert "- anchors: `anchormoe-agent benchmark figures --methods anchors`" in missing
    assert "- ablation: `anchormoe-agent benchmark ablation --methods paper,paper-mvre" in missing
    assert "framework" not in missing
    assert set(drawers([])) < set(CAPTIONS)
