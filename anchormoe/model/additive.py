"""A fitted model of any recipe: scaling, weighted sources, calibration, rules to abstain."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from anchormoe.cases import Cases, Float64, Int64
from anchormoe.evidence import Patching, Source, StepEvidence, all_terms, patch_grid, place_terms, source_outputs
from anchormoe.model.abstention import Abstention, half_missing
from anchormoe.model.calibration import Calibration
from anchormoe.model.normalizer import Normalizer
from anchormoe.model.plausibility import Plausibility
from anchormoe.model.prediction import Prediction, WeightedOutput, compose
from anchormoe.model.projection import Projection, step_grid


@dataclass(frozen=True, slots=True)
class Part:
    """A source under its name in the bundle (`kernel`, `experts`, `paper`) and its weight in the blend."""

    name: str
    source: Source
    weight: float


@dataclass(frozen=True, slots=True)
class AdditiveModel:
    """u = bias + Σ parts. Every factor is multiplied into every unit, so the logit is the sum of its evidence."""

    normalizer: Normalizer
    parts: tuple[Part, ...]
    calibration: Calibration
    abstention: Abstention
    patching: Patching
    plausibility: Plausibility | None = None
    """None in a bundle from before these facts were stored"""

    def predict(self, cases: Cases) -> Prediction:
        """From raw cases. The result for a case does not depend on the other cases."""
        scaled = self.normalizer.apply(cases)
        grid = patch_grid(cases.steps, self.patching.length, self.patching.stride)
        found = compose(list(self._weighted(scaled)), self.calibration.bias, grid, cases.step_mask)
        unusual, missing = self._unusual(scaled, found.label), half_missing(cases)
        return replace(found, abstention=self.abstention.reasons(found.probabilities, unusual, missing))

    def _unusual(self, scaled: Cases, label: Int64) -> Float64:
        """(N,) share of values outside TRAIN's usual range that the found class does not explain."""
        if self.plausibility is None:
            return self.normalizer.outside(scaled)
        return self.plausibility.unexplained(self.normalizer, scaled, label)

    def steps(self, cases: Cases) -> StepEvidence:
        """The same evidence step by step."""
        grid, valid = step_grid(cases.steps), cases.step_mask
        weighted = list(self._weighted(self.normalizer.apply(cases)))
        terms = all_terms(part.output.evidence.terms for part in weighted)
        total = np.zeros((len(cases), cases.steps, len(terms), len(self.calibration.bias)))
        for part in weighted:
            own = part.output.evidence
            steps = Projection(part.units, grid, valid).sums(own.values)
            total += part.factor * place_terms(steps, own.terms, terms)
        return StepEvidence(terms, total)

    def _weighted(self, scaled: Cases) -> Iterator[WeightedOutput]:
        for part in self.parts:
            outputs = source_outputs(part.source, scaled)
            for output in outputs:
                yield WeightedOutput(self.calibration.scale * part.weight / len(outputs), output)
