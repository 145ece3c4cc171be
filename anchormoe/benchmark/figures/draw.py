"""Draws all figures of the results, and the page that shows them."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from anchormoe.benchmark.figures.style import store  # noqa: F401  # fails here, not hours later, without matplotlib
from anchormoe.benchmark.ledger import Entry

CAPTIONS = {
    "framework": "How a score comes about: our default model and the paper's net. It is the sum of what is shown.",
    "motivation": "An explanation made afterwards beside evidence that the score is made of, on the first TEST case of "
    "multi-distractor that both models classify correctly. Blue bands decide the class, hatched ones are distractors.",
    "evidence": "Evidence over the signal, with the truth, distractors and the reliability of the paper's net: "
    "the first TEST case that both models classify correctly. Models of 300 TRAIN cases, the net of at most 40 epochs.",
    "anchors": "Cosines between the posterior anchors of the paper's experts, mean over TEST, with and without the "
    "orthogonality loss.",
    "ablation": "The paper's net without one of its parts, at most 300 TRAIN cases: accuracy, and localization where "
    "the evidence is known.",
    "patch-times": "Time of a prediction with its evidence against the number of patches.",
    "ranks-accuracy": "Mean ranks by accuracy of the paper's nine classifiers and ours: [classifiers](classifiers.md).",
    "ranks-macro-f1": "The same by macro F1.",
}

MISSING = {
    "ablation": "`anchormoe-agent benchmark ablation --methods paper,paper-mvre,paper-dpar,paper-rgc` "
    "(`--sets` and `--seeds` say on what), then `anchormoe-agent benchmark figures --methods ablation`",
    "ranks-accuracy": "`anchormoe-agent benchmark classifiers`, once two sets have all methods",
    "ranks-macro-f1": "the same command",
}
"""What draws a figure that needs a ledger of long runs."""


def drawers(ablation: Sequence[Entry]) -> dict[str, Callable[[Path], list[Path]]]:
    """By name, the quick ones first."""
    from anchormoe.benchmark.figures.ablation_bars import draw_ablation
    from anchormoe.benchmark.figures.anchors import draw_anchors
    from anchormoe.benchmark.figures.evidence import draw_evidence
    from anchormoe.benchmark.figures.framework import draw_framework
    from anchormoe.benchmark.figures.motivation import draw_motivation
    from anchormoe.benchmark.figures.patch_times import draw_patch_times

    return {
        "framework": draw_framework,
        "ablation": lambda folder: draw_ablation(ablation, folder),
        "patch-times": draw_patch_times,
        "motivation": draw_motivation,
        "evidence": draw_evidence,
        "anchors": draw_anchors,
    }


def figures_page(folder: Path, today: date) -> str:
    """Every figure that is in the folder, with its caption, and what the others wait for."""
    there = [name for name in CAPTIONS if (folder / f"{name}.svg").is_file()]
    sections = [f"![{name}]({folder.name}/{name}.svg)\n\n{CAPTIONS[name]}" for name in there]
    told = f"Drawn by `anchormoe-agent benchmark figures` on {today.isoformat()}; each is there as SVG and PNG."
    absent = [f"- {name}: {_drawn_by(name)}" for name in CAPTIONS if name not in there]
    missing = ["## What is missing\n\n" + "\n".join(absent)] if absent else []
    return "\n\n".join([f"# Figures\n\n{told}", *sections, *missing]) + "\n"


def _drawn_by(name: str) -> str:
    return MISSING.get(name, f"`anchormoe-agent benchmark figures --methods {name}`")
