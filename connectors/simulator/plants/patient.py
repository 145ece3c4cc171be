"""A bedside monitor, 25 samples a second. Pure."""

import numpy as np

from connectors.simulator.plants.kinds import Block, PlantKind
from connectors.simulator.plants.noise import Floats

_TACHYCARDIA_HZ = 0.95
_EFFORT_HZ = 0.15


def _signals(b: Block) -> Floats:
    """Heartbeat and breath drive all signals: `beats` and `breaths` are their phases."""
    hertz = b.trait("heart_hz", 1.0, 1.35)
    racing = b.extra_turns("tachycardia", _TACHYCARDIA_HZ) + b.extra_turns("desaturation", _EFFORT_HZ)
    breaths = b.turns(b.trait("breath_hz", 0.2, 0.28), wander=0.08) + b.extra_turns("desaturation", 0.1)
    sinus = 0.02 * np.sin(2 * np.pi * breaths)
    beats = b.turns(hertz, wander=0.05) + racing + sinus
    rate = hertz * (1 + 0.7 * b.strength("tachycardia") + 0.1 * b.strength("desaturation"))
    pause = np.minimum(1.6 * b.strength("apnea"), 0.97)
    depth = (1 - pause) * (1 - 0.35 * b.strength("desaturation")) * (1 + 0.1 * b.drift("depth", 6))
    chest = depth * (np.sin(2 * np.pi * breaths) + 0.25 * np.sin(4 * np.pi * breaths + 0.6))
    columns = [
        _ecg(b, beats, rate, chest),
        _pleth(b, beats, chest),
        b.trait("impedance", 0.8, 1.2) * chest + 0.04 * np.sin(2 * np.pi * beats) + 0.03 * b.noise("resp"),
        _oxygen(b),
        _pressure(b, beats, chest),
    ]
    return np.stack(columns, axis=1)  # (n, C)


def _bump(beats: Floats, centre: float, width: float | Floats) -> Floats:
    """A wave of the heartbeat at `centre` with `width`, both as shares of a beat."""
    return np.exp(-0.5 * ((np.mod(beats - centre + 0.5, 1.0) - 0.5) / width) ** 2)


def _ecg(b: Block, beats: Floats, rate: Floats, chest: Floats) -> Floats:
    """The QRS complex keeps its duration at a higher heart rate."""
    qrs = 1.1 * _bump(beats, 0.3, 0.026 * rate) - 0.22 * _bump(beats, 0.36, 0.026 * rate)
    waves = 0.13 * _bump(beats, 0.12, 0.035) + 0.3 * _bump(beats, 0.6, 0.06)
    wander = 0.08 * b.drift("electrodes", 3) + 0.03 * chest
    return b.trait("ecg", 0.85, 1.15) * (qrs + waves) + wander + 0.03 * b.noise("ecg")


def _pulse(beats: Floats, delay: float) -> Floats:
    return _bump(beats, 0.45 + delay, 0.085) + 0.42 * _bump(beats, 0.7 + delay, 0.1)


def _pleth(b: Block, beats: Floats, chest: Floats) -> Floats:
    weaker = 1 - 0.3 * b.strength("desaturation") - 0.2 * b.strength("tachycardia")
    size = weaker * (1 + 0.12 * b.drift("perfusion", 15)) * (1 + 0.06 * chest)
    return b.trait("pleth", 0.85, 1.15) * size * _pulse(beats, 0.1) + 0.02 * b.noise("pleth")


def _oxygen(b: Block) -> Floats:
    """In whole per cent, as monitors show it; oxygen lags behind the breath."""
    fall = 7 * b.slow_strength("desaturation") + 4 * b.slow_strength("apnea")
    return np.round(np.minimum(b.trait("oxygen", 95.5, 98.5) + 0.9 * b.drift("oxygen", 25) - fall, 100))


def _pressure(b: Block, beats: Floats, chest: Floats) -> Floats:
    low = b.trait("diastolic", 68, 84) + 3 * b.drift("vessels", 30) - 2.5 * chest
    swing = b.trait("swing", 36, 48) * (1 - 0.25 * b.strength("tachycardia"))
    return low + swing * _pulse(beats, 0.0) + 0.7 * b.noise("abp")


PATIENT = PlantKind(
    "patient",
    ("ecg", "pleth", "resp", "spo2", "abp"),
    ("mV", "1", "1", "%", "mmHg"),
    ("normal", "tachycardia", "desaturation", "apnea"),
    40_000_000,
    _signals,
)
