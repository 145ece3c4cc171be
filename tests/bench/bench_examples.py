"""How good evidence by example is: does the most similar TRAIN segment have the true class, and what does it cost?

Run it as `python -m tests.bench.bench_examples RECORDINGS [--unseen RECORDINGS] [--out docs/results/examples.md]`, with
directories that hold one of simulated recordings per kind of plant (`make bundles` writes out/recordings). Each bundle
of `configs/bundles` profiles its TRAIN cases again; then the three strongest segments that speak for the class, of
every TRAIN case that is answered right, are looked up among the segments of the *other* recordings. `--unseen` are
recordings of other individuals (`simulate recordings KIND --seed 77 --count 6 --samples 4096`), all of which are looked
up.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from anchormoe.cases import Cases, Float64
from anchormoe.data.dataset import Dataset
from anchormoe.data.loading import load_dataset
from anchormoe.predictor import Predictor
from anchormoe.profiles.build import ProfileFacts, TrainCases, build_profiles, choose_cases, furthest_channel
from anchormoe.profiles.examples import ExampleIndex, SpanToCompare
from anchormoe.profiles.profile import ExpertProfiles
from anchormoe.profiles.segments import leading_run
from anchormoe.recipes.expert_profiles import vocabulary

_ROOT = Path(__file__).parents[2]
_KINDS = ("pump", "gearbox", "patient")
_STRONGEST = 3
_VARIANTS = ("all of it", "the look alone", "chance")
_TEXT = """\
# Evidence by example

`python -m tests.bench.bench_examples out/recordings --unseen DIR --out docs/results/examples.md`, {date}.

The three strongest segments that speak for the class, of windows that are answered right, each with the most similar
TRAIN segment of the same expert and channel. How often is the true class of that segment the class of the window?
TRAIN: among the segments of other recordings only; what counts how much was chosen here. Unseen: recordings of other
individuals, with the whole index. *Chance* is the share of segments of that class among those that are compared.
Distance and time are medians; others used the processor at the same time.

| bundle | windows | segments | right by look and evidence | by the look | chance | distance | µs per span |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A segment that is looked up, and the class it should have."""

    case: int
    label: int
    expert: str
    channel: int
    span: SpanToCompare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--unseen", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = [_TEXT.format(date=datetime.now(UTC).date().isoformat())]
    for kind in _KINDS:
        for line in _measure(kind, given.recordings, given.unseen):
            lines.append(line)
            print(line, flush=True)
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _measure(kind: str, recordings: Path, unseen: Path | None) -> Iterator[str]:
    predictor = Predictor.load(_ROOT / "configs" / "bundles" / kind)
    config = _ROOT / "configs" / "training" / f"{kind}.yaml"
    whole = load_dataset(f"recordings:{recordings / kind}", config=config).train
    numbers = choose_cases(whole.y)
    train = replace_cases(whole, numbers)
    profiles = _profiles(predictor, train)
    assert train.origins is not None
    names = np.array(train.origins.recordings)
    asked = list(_questions(predictor, train))
    indices = {name: _without(predictor, profiles, name) for name in sorted(set(names.tolist()))}
    yield _row(f"{kind}, TRAIN", asked, lambda one: indices[names[one.case]])
    if unseen is not None:
        split = load_dataset(f"recordings:{unseen / kind}", config=config)
        index = ExampleIndex(profiles, predictor.model.normalizer.scale)
        for_all = list(_questions(predictor, split.train))
        for_all += [replace(one, case=one.case + len(split.train)) for one in _questions(predictor, split.test)]
        yield _row(f"{kind}, unseen", for_all, lambda _: index)


def replace_cases(data: Dataset, numbers: "np.typing.NDArray[np.int64]") -> Dataset:
    assert data.origins is not None
    return replace(
        data, cases=data.cases.subset(numbers), y=data.y[numbers], origins=data.origins.subset(numbers), groups=None
    )


def _profiles(predictor: Predictor, train: Dataset) -> ExpertProfiles:
    some = TrainCases(
        train.cases, train.y, np.arange(len(train.y)), np.ones(len(train.y), np.bool_), False, train.origins
    )
    facts = ProfileFacts(vocabulary(predictor), predictor.normal, predictor.model.normalizer.scale)
    return build_profiles(some, predictor.predict_cases, facts)


def _without(predictor: Predictor, profiles: ExpertProfiles, recording: str) -> ExampleIndex:
    rows = np.flatnonzero(profiles.segments.recording != profiles.recordings.index(recording))
    return ExampleIndex(replace(profiles, segments=profiles.segments.take(rows)), predictor.model.normalizer.scale)


def _questions(predictor: Predictor, data: Dataset) -> Iterator[Asked]:
    for start in range(0, len(data.y), 32):
        cases = data.cases.subset(slice(start, start + 32))
        found = predictor.predict_cases(cases)
        for at in np.flatnonzero(found.label == data.y[start : start + 32]).tolist():
            runs = [
                (*leading_run(evidence), term, expert)
                for term in range(len(found.terms))
                for expert in range(len(found.experts))
                if (evidence := found.expert_evidence[at, :, term, expert]).any()
            ]
            value = {run: float(found.expert_evidence[at, run[0] : run[1], run[2], run[3]].sum()) for run in runs}
            for run in sorted(runs, key=lambda run: -value[run])[:_STRONGEST]:
                first, stop, term, expert = run
                steps = int(found.starts[first]), int(found.stops[stop - 1])
                channel = furthest_channel(
                    found.terms[term], cases.x[at], cases.mask[at], steps, predictor.normal.mean,
                    predictor.model.normalizer.scale,
                )  # fmt: skip
                span = _span(cases, at, channel, steps, value[run], found.evidence[at, first:stop, term].sum(axis=0))
                yield Asked(start + at, int(data.y[start + at]), found.experts[expert], channel, span)


def _span(
    cases: Cases, at: int, channel: int, steps: tuple[int, int], contribution: float, evidence: Float64
) -> SpanToCompare:
    part = slice(*steps)
    return SpanToCompare(cases.x[at, channel, part], cases.mask[at, channel, part], contribution, evidence)


def _row(name: str, asked: list[Asked], index_of: Callable[[Asked], ExampleIndex]) -> str:
    right = dict.fromkeys(_VARIANTS, 0.0)
    distances, took_s, known = [], [], 0
    for one in asked:
        index = index_of(one)
        begin = time.perf_counter()
        nearest = index.nearest(one.expert, one.channel, one.span)
        took_s.append(time.perf_counter() - begin)
        if nearest is None:
            continue
        known += 1
        distances.append(nearest.distance)
        look = index.nearest(one.expert, one.channel, replace(one.span, evidence=None))
        assert look is not None
        right["all of it"] += nearest.label == one.label
        right["the look alone"] += look.label == one.label
        right["chance"] += (index.labels(one.expert, one.channel, one.span) == one.label).mean()
    shares = " | ".join(f"{right[variant] / max(known, 1):.3f}" for variant in _VARIANTS)
    windows = len({one.case for one in asked})
    return (
        f"| {name} | {windows} | {known} of {len(asked)} | {shares} | {np.median(distances):.2f} "
        f"| {1e6 * np.median(took_s):.0f} |"
    )


if __name__ == "__main__":
    main()
