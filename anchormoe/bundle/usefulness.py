"""Whether a bundle is worth serving: its out-of-fold figures against guessing, simple baselines and `unknown`. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

KEY = "usefulness"
"""In the metrics of a bundle's manifest."""
NEAR_CHANCE = 0.1
"""Share of the way from guessing to certainty that even the upper end of the interval must reach."""
MOST_UNKNOWN, MUCH_UNKNOWN = 0.9, 0.5
_Z = 1.959964


@dataclass(frozen=True, slots=True)
class Baseline:
    """A simple model on the same folds; `ahead` where it is better by more than a standard error."""

    name: str
    accuracy: float
    balanced_accuracy: float
    ahead: bool


@dataclass(frozen=True, slots=True)
class Usefulness:
    """Out-of-fold figures on TRAIN. `useless` are reasons not to serve the model, `notes` what to know about it."""

    accuracy: float
    balanced_accuracy: float
    unknown: float
    baselines: tuple[Baseline, ...]
    useless: tuple[str, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge(
    accuracy: float, recalls: Mapping[str, tuple[float, int]], unknown: float, baselines: tuple[Baseline, ...]
) -> Usefulness:
    """`recalls` are the recall and the number of cases of each class; `unknown` is the share without an answer."""
    chance = 1 / len(recalls)
    balanced = sum(recall for recall, _ in recalls.values()) / len(recalls)
    upper = _upper_bound(balanced, len(recalls) ** 2 / sum(1 / max(count, 1) for _, count in recalls.values()))
    useless, notes = [], []
    if upper < chance + NEAR_CHANCE * (1 - chance):
        useless.append(
            f"it is near chance: out-of-fold balanced accuracy {balanced:.3f}, guessing gives {chance:.3f}. Check the "
            "labels, the channels and the length of the window with `data inspect`"
        )
    elif balanced <= chance + NEAR_CHANCE * (1 - chance):
        notes.append(
            f"balanced accuracy {balanced:.3f} can hardly be told from guessing ({chance:.3f}): there are too few cases"
        )
    if unknown >= MOST_UNKNOWN:
        useless.append(
            f"it answers `unknown` for {unknown:.0%} of TRAIN. Record more of each class, or change the rules under "
            "`abstention`"
        )
    elif unknown >= MUCH_UNKNOWN:
        notes.append(f"it answers `unknown` for {unknown:.0%} of TRAIN")
    notes += [_ahead(one, accuracy, balanced) for one in baselines if one.ahead]
    return Usefulness(accuracy, balanced, unknown, baselines, tuple(useless), tuple(notes))


def useless_reasons(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Why a stored bundle should not serve; empty where nothing speaks against it, or nothing was judged."""
    metrics = manifest.get("metrics")
    judged = metrics.get(KEY) if isinstance(metrics, Mapping) else None
    reasons = judged.get("useless") if isinstance(judged, Mapping) else None
    return tuple(str(one) for one in reasons) if isinstance(reasons, list | tuple) else ()


def _ahead(one: Baseline, accuracy: float, balanced: float) -> str:
    return (
        f"it does not beat {one.name}: accuracy {accuracy:.3f} against {one.accuracy:.3f}, balanced {balanced:.3f} "
        f"against {one.balanced_accuracy:.3f}"
    )


def _upper_bound(share: float, n: float) -> float:
    """Wilson's, for 95 %."""
    middle = (share + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z * float((share * (1 - share) / n + _Z * _Z / (4 * n * n)) ** 0.5) / (1 + _Z * _Z / n)
    return min(1.0, middle + half)
