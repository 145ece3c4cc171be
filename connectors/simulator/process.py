"""A made-up chemical process: ten control loops, fifty channels, a sample every three minutes, seven faults. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NAME = "process"
PERIOD_NS = 180_000_000_000
STATES = (
    "normal",
    "feed_step",
    "composition_step",
    "cooling_step",
    "feed_loss",
    "pressure_loss",
    "slow_drift",
    "sticking_valve",
)
LOOPS = ("feed_a", "feed_b", "steam", "reactor_level", "reactor_temp", "reactor_pressure", "condenser_temp",
         "separator_level", "stripper_level", "purge")  # fmt: skip
ANALYSERS = tuple(f"analyser_{number:02d}" for number in range(1, 13))
INDICATORS = tuple(f"indicator_{number:02d}" for number in range(1, 19))
CHANNELS = (*LOOPS, *(f"{name}_valve" for name in LOOPS), *ANALYSERS, *INDICATORS)
DEFAULT_SAMPLES = 480
"""A day."""
DECIMALS = 4
_BURN_IN = 200
_SUPPLIES = 5
"""slow disturbances that everything shares: raw material, cooling water, steam, weather, demand"""
_FEED_A, _FEED_B, _REACTOR_TEMP, _PRESSURE, _CONDENSER = 0, 1, 4, 5, 6


@dataclass(frozen=True, slots=True)
class _Plant:
    """The same for every recording: gains, couplings and levels."""

    coupling: Floats
    supply_gain: Floats
    mix: Floats
    levels: Floats
    spans: Floats

    @classmethod
    def build(cls) -> "_Plant":
        rng = np.random.default_rng(52)
        others = len(ANALYSERS) + len(INDICATORS)
        coupling = rng.normal(0, 0.08, (len(LOOPS), len(LOOPS)))
        np.fill_diagonal(coupling, 0)
        mix = rng.normal(0, 1, (others, 2 * len(LOOPS) + _SUPPLIES)) * (rng.random((others, 25)) < 0.2)
        return cls(
            coupling=coupling,
            supply_gain=rng.normal(0, 0.15, (len(LOOPS), _SUPPLIES)),
            mix=mix / np.maximum(np.linalg.norm(mix, axis=1, keepdims=True), 1),
            levels=rng.uniform(20, 80, len(CHANNELS)),
            spans=rng.uniform(0.5, 4, len(CHANNELS)),
        )


def process_recording(seed: int, samples: int) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64], tuple[str, ...]]:
    """Time_ns (n,) from 0, values (n, C), labels (n,), class names. The whole recording is in state seed % 8."""
    state = STATES[seed % len(STATES)]
    values = np.round(_simulate(state, seed, samples), DECIMALS)
    time_ns = np.arange(samples, dtype=np.int64) * PERIOD_NS
    return time_ns, values, np.full(samples, STATES.index(state)), STATES


def recording_name(seed: int) -> str:
    """With the round of recordings and the state: `process-0-normal`."""
    return f"{NAME}-{seed // len(STATES)}-{STATES[seed % len(STATES)]}"


def _simulate(state: str, seed: int, samples: int) -> Floats:
    """PI controllers hold the loops at their set points, so that most faults show in a valve or an analyser."""
    plant, rng, count = _Plant.build(), np.random.default_rng(seed), len(LOOPS)
    deviation, valve, integral, stuck = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    supply, slow = np.zeros(_SUPPLIES), np.zeros(len(ANALYSERS) + len(INDICATORS))
    rows = np.empty((samples, len(CHANNELS)))
    for at in range(-_BURN_IN, samples):
        supply = 0.95 * supply + 0.25 * rng.normal(size=_SUPPLIES)
        load = plant.supply_gain @ supply + _load(state, at, samples, rng)
        deviation = 0.6 * deviation + 0.5 * stuck + plant.coupling @ deviation + load + 0.08 * rng.normal(size=count)
        integral = np.clip(integral + 0.12 * deviation, -12, 12)
        valve = -(0.5 * deviation + integral)
        stuck = _moved(state, stuck, valve)
        slow = 0.7 * slow + 0.3 * (plant.mix @ np.concatenate([deviation, stuck, supply]) + _composition(state, at))
        if at >= 0:
            noise = rng.normal(size=len(CHANNELS)) * np.repeat((0.15, 0.05, 0.25), (count, count, len(slow)))
            rows[at] = plant.levels + plant.spans * (np.concatenate([deviation, valve, slow]) + noise)
    return rows


def _load(state: str, at: int, samples: int, rng: np.random.Generator) -> Floats:
    """What a fault adds to each loop; it has been there for a while when the recording begins."""
    load = np.zeros(len(LOOPS))
    if state == "feed_step":
        load[_FEED_A], load[_FEED_B] = 0.5, -0.35
    elif state == "cooling_step":
        load[_REACTOR_TEMP] = 0.45
    elif state == "feed_loss":
        load[_FEED_A] = -1.2
    elif state == "pressure_loss":
        load[_PRESSURE] = -0.5 + 0.5 * rng.normal()
    elif state == "slow_drift":
        load[_CONDENSER] = 0.35 + 0.6 * max(at, 0) / samples
    return load


def _composition(state: str, at: int) -> Floats:
    shift = np.zeros(len(ANALYSERS) + len(INDICATORS))
    if state == "composition_step":
        shift[:4] = 0.9, -0.7, 0.6, 0.5
    return shift


def _moved(state: str, stuck: Floats, valve: Floats) -> Floats:
    """Where the valves stand: a sticking one follows only after a large change, and jumps."""
    band = np.zeros(len(LOOPS))
    if state == "sticking_valve":
        band[_REACTOR_TEMP] = 1.2
    return np.where(np.abs(valve - stuck) > band, valve, stuck)
