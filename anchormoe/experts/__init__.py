"""A committee of sparse routed experts whose token contributions add up to the logits."""

from anchormoe.experts.committee import Committee
from anchormoe.experts.fitting import CommitteeFit, fit_committee
from anchormoe.experts.settings import CommitteeSettings, settings_for

__all__ = ["Committee", "CommitteeFit", "CommitteeSettings", "fit_committee", "settings_for"]
