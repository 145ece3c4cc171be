"""What an explanation says about samples that cannot be measurements: the model did not get them. Pure."""

from dataclasses import dataclass

import numpy as np

from anchormoe.cases import Bool, Cases
from anchormoe.model.judgement import Finding, Judge, Judgement
from anchormoe.predictor import Predictor
from anchormoe.windows import Floats


@dataclass(frozen=True, slots=True)
class Doubt:
    """`findings` say which samples of a window the model did not get, and why; `unused` (C, T) are these samples."""

    findings: tuple[Finding, ...]
    unused: Bool
    undecided: bool
    """a channel that the model needs is lost, so the rest cannot decide"""

    @classmethod
    def of(cls, judge: Judge, received: Floats, judged: Judgement) -> "Doubt":
        """`received` (C, T) is the first window of what was judged, NaN where nothing arrived."""
        changed = ~np.isnan(received) & (judged.windows[0] != received)  # NaN is another value
        return cls(
            findings=tuple(one for one in judged.findings[0] if one.masked),
            unused=np.asarray(changed, np.bool_),
            undecided=bool(judged.undecided(judge.rules.dispensable)[0]),
        )


def plausible_window(judge: Judge | None, received: Floats) -> tuple[Floats, Doubt | None]:
    """A window (C, T) as the live agent gives it to the model, (1, C, T); without a judge it is as it was received."""
    if judge is None:
        return received[None], None
    judged = judge.judge(received[None])
    return judged.windows, Doubt.of(judge, received, judged)


def without_doubtful(predictor: Predictor, case: Cases) -> tuple[Cases, Doubt | None]:
    """The first of the raw cases as the model gets it; None where the bundle does not say what is plausible."""
    judge, one = predictor.judge, case.subset(slice(0, 1)).resized(predictor.config.length)
    if judge is None:
        return one, None
    clean, judged = judge.judge_cases(one)
    return clean, Doubt.of(judge, np.where(one.mask[0], one.x[0], np.float32(np.nan)), judged)
