"""A committee of sparse routed experts whose token contributions add up to the logits."""

from anchormoe.experts.fit import fit_committee
from anchormoe.experts.settings import CommitteeSettings, settings_for
from anchormoe.experts.source import Committee

__all__ = ["Committee", "CommitteeSettings", "fit_committee", "settings_for"]
