"""A loaded model: numpy in, numpy out, thread-safe, batch-invariant."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from anchormoe.bundle import store as bundle
from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.golden import TOLERANCE_CPU, TOLERANCE_GPU, require_golden
from anchormoe.bundle.memory import require_memory
from anchormoe.bundle.registry import SOURCE_TYPES, SourceTypes, move_source
from anchormoe.cases import Bool, Cases, Float64, Int64
from anchormoe.errors import DataError, ModelError
from anchormoe.evidence import StepEvidence
from anchormoe.model.additive import AdditiveModel
from anchormoe.model.channel_profile import ChannelProfile
from anchormoe.model.judgement import IMPLAUSIBLE, Judge
from anchormoe.model.prediction import Prediction, concatenate
from anchormoe.profiles.examples import ExampleIndex
from anchormoe.profiles.normal import NormalRange
from anchormoe.profiles.profile import ExpertProfiles


class Predictor:
    """A prediction changes no state, so any number of threads may share one predictor."""

    def __init__(
        self, config: BundleConfig, model: AdditiveModel, profile: ChannelProfile | None = None,
        experts: ExpertProfiles | None = None,
    ) -> None:  # fmt: skip
        self.config = config
        self.model = model
        self.profile = profile
        self.experts = experts
        self.expert_names: Mapping[str, str] = {} if experts is None else experts.titles
        """readable names by the internal ones of `Prediction.experts`; empty in a bundle without expert profiles"""

    @classmethod
    def load(
        cls, directory: Path | str, *, device: str = "cpu", threads: int | None = None,
        sources: SourceTypes = SOURCE_TYPES,
    ) -> "Predictor":  # fmt: skip
        """Checks the whole bundle, the golden windows last. Raises ModelError, and OSError for unreadable files."""
        try:
            return cls._load(Path(directory), device=device, threads=threads, sources=sources)
        except (ModelError, OSError):
            raise
        # Whatever else a bundle makes torch, numpy or a compiler raise, MemoryError included, is the bundle's fault.
        except Exception as error:
            raise ModelError(f"{directory}: cannot be loaded: {type(error).__name__}: {str(error)[:500]}") from error

    @classmethod
    def _load(cls, directory: Path, *, device: str, threads: int | None, sources: SourceTypes) -> "Predictor":
        read = bundle.load_bundle(directory, sources=sources)
        require_memory(read.config, [part.source for part in read.model.parts])
        parts = tuple(replace(part, source=move_source(part.source, device)) for part in read.model.parts)
        predictor = cls(read.config, replace(read.model, parts=parts), read.profile, read.experts)
        if "torch" in predictor.backends.values():
            _use_threads(threads)
        tolerance = TOLERANCE_CPU if device == "cpu" else TOLERANCE_GPU
        require_golden(read.golden, predictor.predict_cases, tolerance=tolerance)
        return predictor

    @cached_property
    def examples(self) -> ExampleIndex | None:
        """Finds the TRAIN segment that is most like a span; None in a bundle without expert profiles."""
        return None if self.experts is None else ExampleIndex(self.experts, self.model.normalizer.scale)

    @cached_property
    def normal(self) -> NormalRange:
        """What is normal for each channel, by TRAIN."""
        return NormalRange.of(self.profile, self.model.normalizer, self.config.classes)

    @cached_property
    def usual_range(self) -> tuple[Float64, Float64]:
        """(C,) twice: the ends of TRAIN's usual range, which `out_of_distribution` counts the values outside of."""
        scaling = self.model.normalizer
        return scaling.mean + scaling.scale * scaling.low, scaling.mean + scaling.scale * scaling.high

    @property
    def judge(self) -> Judge | None:
        """Finds implausible samples; None where the bundle does not say what is plausible."""
        rules = self.model.plausibility
        return None if rules is None else Judge.for_windows(rules, self.config.length)

    @property
    def backends(self) -> dict[str, str]:
        """What computes each source: numba, torch or numpy; ANCHORMOE_BACKEND overrides the choice."""
        return {part.name: getattr(part.source, "backend", "numpy") for part in self.model.parts}

    def predict(self, windows: Any, mask: Any) -> Prediction:
        """Raw windows (B, C, T) with mask (B, C, T), True where valid. Raises ModelError where they do not fit."""
        try:
            cases = Cases.from_windows(windows, mask)
        except (DataError, TypeError, ValueError) as error:
            raise ModelError(str(error)) from error
        return self.predict_cases(replace(cases, lengths=self._lengths(cases)))

    def predict_cases(self, cases: Cases, on_progress: Callable[[int], None] = lambda done: None) -> Prediction:
        """Raw cases; shorter ones are padded and longer ones cut if the model was trained on unequal lengths.

        `on_progress` is called with the number of cases done.
        """
        predictions, done = [], 0
        for chunk in self._chunks(self._fit_length(cases)):
            predictions.append(self.model.predict(chunk))
            done = min(done + len(chunk), len(cases))
            on_progress(done)
        return concatenate(predictions, len(cases))

    def predict_plausible(self, cases: Cases, on_progress: Callable[[int], None] = lambda done: None) -> Prediction:
        """As the live agent answers: implausible samples are kept from the model; a window that they decide is
        `unknown`. The same as `predict_cases` where the bundle does not say what is plausible.
        """
        clean, undecided = self.plausible_cases(cases)
        found = self.predict_cases(clean, on_progress)
        if not undecided.any():
            return found
        rules = tuple(IMPLAUSIBLE if lost else rule for lost, rule in zip(undecided, found.abstention, strict=True))
        return replace(found, abstention=rules)

    def plausible_cases(self, cases: Cases) -> tuple[Cases, Bool]:
        """Cases without implausible samples, and (N,) whether they lack a channel that the model needs."""
        judge = self.judge
        if judge is None or not len(cases):
            return cases, np.zeros(len(cases), np.bool_)
        clean, judged = judge.judge_cases(self._fit_length(cases))
        return clean, judged.undecided(judge.rules.dispensable)

    def steps(self, cases: Cases) -> StepEvidence:
        """The evidence of every step instead of every patch."""
        parts = [self.model.steps(chunk) for chunk in self._chunks(self._fit_length(cases))]
        return StepEvidence(parts[0].terms, np.concatenate([part.values for part in parts])[: len(cases)])

    def _lengths(self, cases: Cases) -> Int64:
        """Full windows; for a model of unequal lengths a window ends with its last valid step."""
        if not self.config.unequal_length:
            return cases.lengths
        valid = cases.step_mask
        last = valid.shape[1] - np.argmax(valid[:, ::-1], axis=1)
        return np.asarray(np.where(valid.any(axis=1), last, 1), np.int64)

    def _fit_length(self, cases: Cases) -> Cases:
        expected = len(self.config.channels)
        if cases.channels != expected:
            raise ModelError(f"windows have {cases.channels} channels, the model was trained on {expected}")
        if cases.steps != self.config.length and not self.config.unequal_length:
            raise ModelError(f"windows have {cases.steps} steps, the model needs {self.config.length}")
        return cases.resized(self.config.length)

    def _chunks(self, cases: Cases) -> Iterator[Cases]:
        """At most `rows` windows at once, to bound memory; no window at all becomes one empty window."""
        some = cases if len(cases) else _one_empty(cases)
        for start in range(0, len(some), self.config.rows):
            yield some.subset(slice(start, start + self.config.rows))


def _one_empty(cases: Cases) -> Cases:
    shape = (1, cases.channels, cases.steps)
    return Cases(np.zeros(shape, np.float32), np.zeros(shape, np.bool_), np.full(1, cases.steps, np.int64))


def _use_threads(threads: int | None) -> None:
    """Only torch computes in several threads."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
