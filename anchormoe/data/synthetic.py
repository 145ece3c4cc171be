"""The paper's four synthetic sets: the steps that decide the class are known. Pure."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.errors import DataError

STEPS = 128
CHANNELS = 4
CLASSES = 3
MOTIF_STEPS = 16
NOISE = 0.18
TRAIN_CASES, TEST_CASES = 900, 300
CLASS_OFFSETS = (0.08, -0.08, 0.04)
ANYWHERE, LEFT, RIGHT = (8, 104), (8, 44), (68, 104)


@dataclass(frozen=True, slots=True)
class Motif:
    """A shape of 16 steps on one channel."""

    channel: int
    kind: int
    amplitude: float


@dataclass(frozen=True, slots=True)
class Design:
    """The motifs of each class in order of time, the distractors, and whether the class shifts a channel's level."""

    motifs: tuple[tuple[Motif, ...], ...]
    distractors: int
    distractor_amplitude: float
    offset: bool


_PAIRS = (
    (Motif(0, 0, 1.0), Motif(2, 3, 0.85)),
    (Motif(1, 1, 0.95), Motif(3, 2, 0.85)),
    (Motif(0, 2, -1.0), Motif(2, 4, 0.85)),
)
# Every motif belongs to two classes: only the pair decides.
_SHARED = (
    (Motif(0, 0, 0.9), Motif(1, 1, 0.9)),
    (Motif(0, 0, 0.9), Motif(2, 2, 0.9)),
    (Motif(1, 1, 0.9), Motif(2, 2, 0.9)),
)
DESIGNS = MappingProxyType(
    {
        "localized": Design(tuple(pair[:1] for pair in _PAIRS), 1, 1.2, True),
        "composition": Design(_SHARED, 1, 1.2, True),
        "distractor": Design(_PAIRS, 1, 1.8, False),
        "multi-distractor": Design(_PAIRS, 3, 2.2, False),
    }
)


@dataclass(frozen=True, slots=True)
class GeneratedCases:
    """Cases `x` (N, C, T), classes `y` (N,), and `truth` (N, C, T): the positions of the class's motifs."""

    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    truth: npt.NDArray[np.bool_]


def load_synthetic(name: str, *, seed: int) -> Split:
    """900 TRAIN cases generated with seed + 1 and 300 TEST cases with seed + 2."""
    design = DESIGNS.get(name)
    if design is None:
        raise DataError(f"synthetic set {name!r}: expected one of {', '.join(DESIGNS)}")
    train, test = (generate(design, n, seed=seed + i) for i, n in ((1, TRAIN_CASES), (2, TEST_CASES)))
    return Split(train=_dataset(name, train), test=_dataset(name, test))


def generate(design: Design, size: int, *, seed: int) -> GeneratedCases:
    """`size` cases of a design; the same seed gives the same cases."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, size)
    x = rng.normal(0.0, NOISE, (size, CHANNELS, STEPS))
    truth = np.zeros(x.shape, dtype=np.bool_)
    for case in range(size):
        _insert_evidence(x[case], truth[case], design.motifs[y[case]], rng)
        _insert_distractors(x[case], design, rng)
    if design.offset:
        x[:, -1] += np.take(CLASS_OFFSETS, y)[:, None]
    return GeneratedCases(x.astype(np.float32), y.astype(np.int64), truth)


def motif_shape(kind: int) -> npt.NDArray[np.float64]:
    """One motif of amplitude 1: sine, square, triangle, Gaussian bump, double sine."""
    t = np.arange(MOTIF_STEPS) / MOTIF_STEPS
    shapes = (
        np.sin(2 * np.pi * t),
        np.sign(np.sin(2 * np.pi * t)),
        1 - 2 * np.abs(t - 0.5),
        np.exp(-0.5 * ((t - 0.5) / 0.16) ** 2),
        np.sin(4 * np.pi * t),
    )
    return shapes[kind]


def _insert_evidence(
    x: npt.NDArray[np.float64], truth: npt.NDArray[np.bool_], motifs: tuple[Motif, ...], rng: np.random.Generator
) -> None:
    ranges = (ANYWHERE,) if len(motifs) == 1 else (LEFT, RIGHT)
    for motif, starts in zip(motifs, ranges, strict=True):
        span = _insert(x, motif, int(rng.integers(*starts)))
        truth[motif.channel, span] = True


def _insert_distractors(x: npt.NDArray[np.float64], design: Design, rng: np.random.Generator) -> None:
    for _ in range(design.distractors):
        motif = Motif(int(rng.integers(CHANNELS)), int(rng.integers(5)), design.distractor_amplitude)
        _insert(x, motif, int(rng.integers(*ANYWHERE)))


def _insert(x: npt.NDArray[np.float64], motif: Motif, start: int) -> slice:
    span = slice(start, start + MOTIF_STEPS)
    x[motif.channel, span] += motif.amplitude * motif_shape(motif.kind)
    return span


def _dataset(name: str, generated: GeneratedCases) -> Dataset:
    return Dataset(
        name=f"synthetic:{name}",
        cases=Cases.from_arrays(generated.x),
        y=generated.y,
        classes=tuple(f"class {c}" for c in range(CLASSES)),
        channels=tuple(f"channel {c}" for c in range(CHANNELS)),
        units=("",) * CHANNELS,
        truth=generated.truth,
    )
