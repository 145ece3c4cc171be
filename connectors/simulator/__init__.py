"""A simulated plant as a source: wide JSON records keyed by asset, with faults, and dirt as real topics have it."""

from connectors.simulator.corruption import CLEAN, CorruptionSettings
from connectors.simulator.source import SimulatorSource

__all__ = ["CLEAN", "CorruptionSettings", "SimulatorSource"]
