"""Expert profiles from the predictions of TRAIN cases. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.conversion import is_plain_text
from anchormoe.data.dataset import Origins
from anchormoe.evidence import Term
from anchormoe.model.prediction import Prediction
from anchormoe.profiles.candidates import Candidates
from anchormoe.profiles.names import NamedBefore, Vocabulary, family_of, with_titles
from anchormoe.profiles.normal import NormalRange
from anchormoe.profiles.profile import (
    MAX_EXPERTS,
    MAX_RECORDINGS,
    MAX_TERMS,
    MAX_TOGETHER,
    PROTOTYPES,
    Anchors,
    ExpertProfile,
    ExpertProfiles,
    TermShare,
)
from anchormoe.profiles.segments import (
    COLUMNS,
    MAX_CLASSES,
    POINTS,
    UNKNOWN_RECORDING,
    UNKNOWN_TIME,
    Segments,
    leading_run,
    look_at,
    shorten,
)
from anchormoe.profiles.shapes import USUAL, Shape, Usual, common_shape, shape_of

_SHAPED = 32
"""Segments of an expert, the strongest, whose shapes decide its own."""
MAX_CASES = 600
"""Cases that are predicted for the profiles; of more, evenly spread ones of each class."""


@dataclass(frozen=True, slots=True)
class TrainCases:
    """What profiles are made of: raw cases with classes, and what is known about them."""

    cases: Cases
    y: Int64
    numbers: Int64
    """of the cases in TRAIN"""
    right: Bool
    """whether the answer to each was right"""
    out_of_fold: bool
    """whether those were answers of models that had not seen the case"""
    origins: Origins | None = None


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """What the model and its channels are called, and what is normal."""

    vocabulary: Vocabulary
    normal: NormalRange
    scale: Float64
    """(C,) TRAIN's deviation of each channel"""
    before: NamedBefore | None = None
    anchors: tuple[Anchors, ...] = ()


def choose_cases(y: Int64, most: int = MAX_CASES) -> Int64:
    """Numbers of at most `most` cases, evenly spread over each class, in order; rare classes keep theirs."""
    if len(y) <= most:
        return np.arange(len(y))
    labels, counts = np.unique(y, return_counts=True)
    shares = {int(label): 0 for label in labels}
    left, waiting = most, sorted(zip(counts.tolist(), labels.tolist(), strict=True))
    for place, (count, label) in enumerate(waiting):
        shares[label] = min(count, left // (len(waiting) - place))
        left -= shares[label]
    chosen = [_spread(np.flatnonzero(y == label), shares[label]) for label in shares]
    return np.sort(np.concatenate(chosen))


def build_profiles(
    train: TrainCases, predict: Callable[[Cases], Prediction], facts: ProfileFacts, *, rows: int = 32,
    on_progress: Callable[[int], None] = lambda done: None,
) -> ExpertProfiles:  # fmt: skip
    """Predicts the cases `rows` at a time, so that memory stays bounded; then one pass over what was kept."""
    batches = (slice(start, start + rows) for start in range(0, len(train.y), rows))
    return profiles_of(
        ((batch, predict(train.cases.subset(batch))) for batch in batches), train, facts, on_progress=on_progress
    )


def profiles_of(
    predictions: Iterable[tuple[slice, Prediction]], train: TrainCases, facts: ProfileFacts,
    *, on_progress: Callable[[int], None] = lambda done: None,
) -> ExpertProfiles:  # fmt: skip
    """From the predictions of consecutive parts of the cases."""
    totals: _Totals | None = None
    for batch, found in predictions:
        totals = totals or _Totals(found, len(facts.vocabulary.classes))
        totals.add(found, batch.start, train.y[batch], train.right[batch])
        on_progress(min(batch.stop, len(train.y)))
    if totals is None or len(totals.experts) > MAX_EXPERTS:
        return ExpertProfiles((), _no_segments(), ())
    recordings = _recordings(train)
    segments, shapes = _segments(totals, train, facts, recordings)
    experts = [_profile(number, totals, segments, shapes, train, facts) for number in range(len(totals.experts))]
    return ExpertProfiles(
        with_titles(experts, facts.vocabulary, facts.before), segments, tuple(recordings), facts.anchors
    )


@dataclass(slots=True)
class _Totals:
    """Sums over cases; E experts, K terms, Y classes."""

    experts: tuple[str, ...]
    terms: tuple[Term, ...]
    starts: Int64
    stops: Int64
    by_class: Float64
    windows: Int64
    by_term: Float64
    chosen: Float64
    units: Float64
    gate: Float64
    gated: Float64
    added: Float64
    added_right: Float64
    candidates: Candidates | None = field(default=None)

    def __init__(self, found: Prediction, classes: int) -> None:
        count = len(found.experts)
        self.experts, self.terms, self.starts, self.stops = found.experts, found.terms, found.starts, found.stops
        self.by_class, self.windows = np.zeros((count, classes)), np.zeros(classes, np.int64)
        self.by_term = np.zeros((count, len(found.terms)))
        self.chosen, self.units, self.gate, self.gated, self.added, self.added_right = np.zeros((6, count))
        self.candidates = None

    def add(self, found: Prediction, first: int, y: Int64, right: Bool) -> None:
        evidence = found.expert_evidence  # (B, P, K, E)
        whole = evidence.sum(axis=(1, 2))  # (B, E)
        np.add.at(self.by_class.T, found.label, whole)
        np.add.at(self.windows, found.label, 1)
        self.by_term += np.abs(evidence).sum(axis=(0, 1)).T
        used = found.weight > 0
        self.chosen += used.sum(axis=(0, 1, 2))
        self.units += (~np.isnan(found.weight)).sum(axis=(0, 1, 2))
        gated = ~np.isnan(found.reliability) & (used | np.isnan(found.weight))
        self.gate += np.where(gated, found.reliability, 0).sum(axis=(0, 1, 2))
        self.gated += gated.sum(axis=(0, 1, 2))
        spoken = np.maximum(whole, 0)
        self.added += spoken.sum(axis=0)
        self.added_right += spoken[right].sum(axis=0)
        classes = len(self.windows)
        new = Candidates.of(first, evidence, y, classes if classes <= MAX_CLASSES else 0)
        kept = (new if self.candidates is None else self.candidates.merged(new)).strongest()
        self.candidates = kept.with_classes(first, found.evidence)


def _segments(
    totals: _Totals, train: TrainCases, facts: ProfileFacts, recordings: dict[str, int]
) -> tuple[Segments, list[Shape]]:
    """Those of the candidates that have enough values, by expert and strength; and their shapes."""
    found = totals.candidates
    assert found is not None
    order = np.lexsort((found.case, -found.strength, found.expert))
    rows, values, looks, by_class, shapes = [], [], [], [], []
    for at in order.tolist():
        first, last = leading_run(found.evidence[at])
        case, expert = int(found.case[at]), int(found.expert[at])
        start = int(totals.starts[first])
        stop = min(int(totals.stops[last - 1]), int(train.cases.lengths[case]))
        x, mask = train.cases.x[case], train.cases.mask[case]
        if stop <= start:
            continue
        channel = leading_channel(totals.terms[int(found.term[at])], x, mask, (start, stop), facts)
        own, valid = x[channel, start:stop], mask[channel, start:stop]
        short, look = shorten(own, valid), look_at(own, valid)
        if short is None or look is None:
            continue
        values.append(short)
        looks.append(look)
        by_class.append(found.by_class[at])
        family = family_of(totals.experts[expert])
        shapes.append(shape_of(own, valid, _usual(facts, channel), family))
        rows.append([
            expert, channel, int(train.numbers[case]), start, stop, int(found.label[at]),
            *_origin(train, case, start, facts, recordings), float(found.evidence[at, first:last].sum()),
        ])  # fmt: skip
    if not rows:
        return _no_segments(), []
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    whole = dict(zip(COLUMNS, (column.astype(np.int64) for column in columns[:-1]), strict=True))
    evidence = np.stack(by_class).astype(np.float32)
    segments = Segments(
        contribution=columns[-1].astype(np.float32),
        values=np.stack(values),
        look=np.stack(looks),
        evidence=evidence if evidence.shape[1] else None,
        **whole,
    )
    return segments, shapes


def leading_channel(term: Term, x: NDArray[np.float32], mask: Bool, span: tuple[int, int], facts: ProfileFacts) -> int:
    """The channel of a term; of several, the one furthest from its normal mean in the span, in its own deviations."""
    return furthest_channel(term, x, mask, span, facts.normal.mean, facts.scale)


def furthest_channel(
    term: Term, x: NDArray[np.float32], mask: Bool, span: tuple[int, int], mean: Float64, scale: Float64
) -> int:
    """Of the channels (C, T) of a term, in the steps of a span; the first one where all are alike."""
    if len(term) == 1:
        return term[0]
    channels = np.array(term)
    part, valid = x[channels, span[0] : span[1]].astype(np.float64), mask[channels, span[0] : span[1]]
    away = np.where(valid, (part - mean[channels, None]) / scale[channels, None], 0)
    distance = np.sqrt((away**2).sum(axis=1) / np.maximum(valid.sum(axis=1), 1))
    return int(channels[int(np.argmax(distance))])


def _profile(
    number: int, totals: _Totals, segments: Segments, shapes: Sequence[Shape], train: TrainCases, facts: ProfileFacts
) -> ExpertProfile:
    rows = np.flatnonzero(segments.expert == number)
    order = rows[np.argsort(-np.abs(segments.contribution[rows]), kind="stable")]
    name = totals.experts[number]
    strongest = order[:_SHAPED]
    weights = np.abs(segments.contribution[strongest]).astype(np.float64)
    shape = common_shape([shapes[row] for row in strongest.tolist()], weights, family_of(name) or "mixed shapes")
    if shape.words == USUAL:
        shape = Shape(family_of(name) or USUAL)
    everything = max(float(totals.by_term.sum()), 1e-300)
    return ExpertProfile(
        name=name,
        title="",
        shape=shape.words,
        cycles=shape.cycles,
        terms=_terms(totals.by_term[number], totals.terms),
        support=tuple(
            _round(_ratio(value, count)) for value, count in zip(totals.by_class[number], totals.windows, strict=True)
        ),
        share=float(totals.by_term[number].sum()) / everything,
        chosen=_ratio(totals.chosen[number], totals.units[number]),
        reliability=_ratio(totals.gate[number], totals.gated[number]),
        right=_ratio(totals.added_right[number], totals.added[number]),
        judged="out-of-fold" if train.out_of_fold else "TRAIN",
        prototypes=choose_prototypes(order, segments, facts.vocabulary.period_s),
    )


def _terms(by_term: Float64, terms: Sequence[Term]) -> tuple[TermShare, ...]:
    total = float(by_term.sum())
    order = np.argsort(-by_term, kind="stable")[:MAX_TERMS]
    return tuple(
        TermShare(terms[at][:MAX_TOGETHER], len(terms[at]), float(by_term[at]) / total)
        for at in order.tolist()
        if total > 0 and by_term[at] > 0
    )


def choose_prototypes(order: Int64, segments: Segments, period_s: float | None) -> tuple[int, ...]:
    """The strongest, of different cases; where the expert speaks for several classes, at least two of them.

    Windows overlap: the same stretch of a channel, seen by two of them, is one prototype.
    """
    chosen: list[int] = []
    for row in order.tolist():
        if len(chosen) == PROTOTYPES:
            break
        if not any(_is_repeated(segments, row, one, period_s) for one in chosen):
            chosen.append(row)
    others = [row for row in order.tolist() if chosen and segments.label[row] != segments.label[chosen[0]]]
    if len(chosen) == PROTOTYPES and others and not set(others) & set(chosen):
        chosen[-1] = others[0]
    return tuple(chosen)


def _is_repeated(segments: Segments, row: int, other: int, period_s: float | None) -> bool:
    """Of the same case, or of the same time of the same channel of a recording."""
    if segments.case[row] == segments.case[other]:
        return True
    if period_s is None or segments.recording[row] == UNKNOWN_RECORDING:
        return False
    if segments.recording[row] != segments.recording[other] or segments.channel[row] != segments.channel[other]:
        return False
    first = [int(segments.start_ns[at]) for at in (row, other)]
    steps = [int(segments.stop[at] - segments.start[at]) for at in (row, other)]
    stop = [start + round(count * period_s * 1e9) for start, count in zip(first, steps, strict=True)]
    return max(first) < min(stop)


def _usual(facts: ProfileFacts, channel: int) -> Usual:
    normal = facts.normal
    return Usual(float(normal.low[channel]), float(normal.high[channel]), float(normal.deviation[channel]))


def _recordings(train: TrainCases) -> dict[str, int]:
    if train.origins is None:
        return {}
    names = sorted({_printable(name) for name in train.origins.recordings.tolist()})
    return {name: at for at, name in enumerate(names[:MAX_RECORDINGS])}


def _origin(
    train: TrainCases, case: int, start: int, facts: ProfileFacts, recordings: dict[str, int]
) -> tuple[int, int]:
    if train.origins is None:
        return UNKNOWN_RECORDING, UNKNOWN_TIME
    name = _printable(train.origins.recordings[case])
    period_s = facts.vocabulary.period_s
    offset = 0 if period_s is None else round(start * period_s * 1e9)
    return recordings.get(name, UNKNOWN_RECORDING), int(train.origins.start_ns[case]) + offset


def _printable(name: str) -> str:
    """Names of files may hold anything; those of a bundle are plain text."""
    return "".join(one if is_plain_text(one) else "?" for one in str(name))[:200] or "?"


def _spread(members: Int64, count: int) -> Int64:
    return members[((np.arange(count) + 0.5) * len(members) / max(count, 1)).astype(np.int64)]


def _ratio(value: float, count: float) -> float | None:
    return min(float(value) / float(count), 1e300) if count > 0 else None


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _no_segments() -> Segments:
    none = np.zeros(0, np.int64)
    columns = (none, none, none, none, none, none, none, none)
    return Segments(*columns, contribution=np.zeros(0, np.float32), values=np.zeros((0, POINTS), np.float32))
