"""Loads the bundle of an activation and checks that it fits the group's windows."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from agent.errors import SettingsError
from agent.models.activations import Activation
from agent.models.bundle_directory import bundle_path
from agent.models.classifier import ModelName, WindowClassifier
from agent.models.normal_values import NormalValues
from agent.models.schedule import ActiveModel
from agent.settings import Group, ResolvedGroup, reconcile
from anchormoe.errors import ModelError
from anchormoe.windows import FillRule

if TYPE_CHECKING:
    from anchormoe import Predictor
    from anchormoe.bundle.config import BundleConfig

log = structlog.get_logger()

LoadModel = Callable[[Path], "Predictor"]


@dataclass(frozen=True, slots=True)
class CompatibleBundles:
    """The bundles that may be activated in one group.

    `stated` is the group as plant.yaml has it, `running` the one whose windows are kept; a bundle must fit both.
    """

    directory: Path
    stated: Group
    running: ResolvedGroup
    load: LoadModel

    def load_activated(self, activation: Activation) -> ActiveModel:
        """Raises ModelError with the reason of a refusal. Takes seconds: call it in a thread."""
        path = self.running.bundle if activation.bundle is None else bundle_path(self.directory, activation.bundle)
        predictor = self.load(path)
        if predictor.config.digest != activation.digest:
            found, expected = predictor.config.digest[:12], activation.digest[:12]
            raise ModelError(f"{activation.bundle or path.name}: its digest is {found}, the activation says {expected}")
        return active_model(resolve_for_bundle(self.stated, self.running, predictor.config), predictor)


def resolve_for_bundle(stated: Group, running: ResolvedGroup, config: "BundleConfig") -> ResolvedGroup:
    """The group with the bundle's own rules for filling: gaps are stored as gaps, so each bundle may fill its own way.

    Raises ModelError when channels, units, period or window differ from those of the running group.
    """
    try:
        resolved = reconcile(stated, config)
    except SettingsError as error:
        raise ModelError("; ".join(error.problems)) from error
    resolved = replace(resolved, bundle=running.bundle)
    now, wanted = _without_fill_rules(running), _without_fill_rules(resolved)
    different = [field.name for field in fields(now) if getattr(now, field.name) != getattr(wanted, field.name)]
    if different:
        where = ", ".join(different)
        raise ModelError(f"incompatible bundle: it differs from the running group {running.name} in {where}")
    return resolved


def _without_fill_rules(group: ResolvedGroup) -> ResolvedGroup:
    return replace(group, channels=tuple(replace(channel, fill=FillRule()) for channel in group.channels))


def active_model(group: ResolvedGroup, predictor: "Predictor") -> ActiveModel:
    config = predictor.config
    judge = predictor.judge
    if judge is None:
        log.info(
            "the bundle does not say which values are plausible, so sensors are not judged; train it again",
            bundle=config.name, group=group.name,
        )  # fmt: skip
    classifier = WindowClassifier(
        predictor, tuple(config.classes), group.channel_names, group.fill_rules, group.min_coverage, judge
    )
    name = ModelName(config.name, config.version, config.digest)
    units = tuple(channel.unit for channel in group.channels)
    return ActiveModel(
        classifier, name, units, NormalValues.of(predictor), getattr(predictor, "expert_names", {}),
        getattr(predictor, "examples", None),
    )  # fmt: skip
