"""The size of a data set as a configuration file states it, and random data of that size."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from anchormoe.cases import Cases
from anchormoe.conversion import from_settings
from anchormoe.data.dataset import Dataset, Split
from anchormoe.errors import DataError


@dataclass(frozen=True, slots=True)
class Shape:
    """Cases of both parts, channels, steps of the longest series (of the `shortest`, where lengths differ), classes."""

    train: int
    test: int
    channels: int
    steps: int
    classes: int
    shortest: int | None = None

    def __post_init__(self) -> None:
        if min(self.train, self.test, self.channels, self.steps) < 1 or self.classes < 2:
            raise ValueError("need at least one case, channel and step, and two classes")


def read_shape(path: Path) -> Shape:
    """`data.shape` of a data set's configuration file. DataError names file and key."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    about = content.get("data") if isinstance(content, dict) else None
    if not isinstance(about, dict) or "shape" not in about:
        raise DataError(f"{path}: data.shape is missing")
    return from_settings(Shape, about["shape"], f"{path}: data.shape")


def rehearsal(name: str, shape: Shape, *, most_cases: int, seed: int = 0) -> Split:
    """Noise with an offset by class on one channel, at most `most_cases` per part; every class occurs in TRAIN."""
    draw = np.random.default_rng(seed)
    return Split(
        train=_noise(name, shape, max(min(shape.train, most_cases), shape.classes), draw),
        test=_noise(name, shape, min(shape.test, most_cases), draw),
    )


def _noise(name: str, shape: Shape, cases: int, draw: np.random.Generator) -> Dataset:
    y = np.arange(cases, dtype=np.int64) % shape.classes
    lengths = draw.integers(shape.shortest or shape.steps, shape.steps + 1, cases)
    series = [draw.standard_normal((shape.channels, int(length))) for length in lengths]
    for one, label in zip(series, y, strict=True):
        one[label % shape.channels] += label + 1
    return Dataset(
        name=name,
        cases=Cases.from_arrays(series),
        y=y,
        classes=tuple(f"class_{at}" for at in range(shape.classes)),
        channels=tuple(f"channel_{at}" for at in range(shape.channels)),
        units=("",) * shape.channels,
    )
