"""A simulated plant as a source: wide JSON records keyed by asset, with faults and corrupted data."""

from connectors.simulator.corruption import CLEAN, CorruptionSettings
from connectors.simulator.source import SimulatorSource

__all__ = ["CLEAN", "CorruptionSettings", "SimulatorSource"]
