"""The slow stage of a gearbox, 25 samples a second: fast enough for the seventh order of its shaft. Pure."""

import numpy as np

from connectors.simulator.plants.kinds import Block, PlantKind
from connectors.simulator.plants.noise import Floats

_SAG_HZ = -0.12
_WANDER = 0.03


def _signals(b: Block) -> Floats:
    """All signals follow the shaft: `turns` is its angle in revolutions."""
    overload = b.strength("overload")
    hertz = b.trait("shaft_hz", 1.35, 1.65)
    turns = b.turns(hertz, wander=_WANDER) + b.extra_turns("overload", _SAG_HZ)
    load = 1 + 0.1 * b.drift("load", 25) + overload * (0.16 + 0.07 * np.sin(2 * np.pi * 0.6 * b.time_s))
    speed = 60 * (b.rate(hertz, wander=_WANDER) + _SAG_HZ * overload)
    columns = [
        _vibration(b, turns, load, "x", 0.0),
        _vibration(b, turns, load, "y", 0.25),
        speed + 0.25 * b.noise("encoder") + 0.3 * b.drift("slip", 0.4),
        b.trait("torque", 380, 460) * load * (1 + 0.015 * np.sin(6 * np.pi * turns)) + 3 * b.noise("torque"),
        _oil(b, load),
    ]
    return np.stack(columns, axis=1)  # (n, C)


def _vibration(b: Block, turns: Floats, load: Floats, axis: str, quarter: float) -> Floats:
    imbalance, damage = b.strength("imbalance"), b.strength("tooth_damage")
    size = b.trait("vibration", 0.85, 1.15) * (1 + 0.1 * b.drift("foundation" + axis, 12))
    once = (0.5 + 1.1 * imbalance) * np.sin(2 * np.pi * (turns + quarter))
    planets = 0.4 * np.sin(2 * np.pi * (3 * turns + b.trait("planets" + axis, 0, 1)))
    mesh = 0.55 * load**2 * (1 + 0.8 * b.strength("overload")) * np.sin(2 * np.pi * (7 * turns + quarter))
    shaft: Floats = size * (once + planets + mesh + damage * _impact(turns, quarter))
    return shaft + 0.22 * b.noise("vibration" + axis)


def _impact(turns: Floats, quarter: float) -> Floats:
    """The broken tooth hits once per revolution; the impact decays within a seventh of a turn."""
    since: Floats = np.mod(turns - 0.3 + quarter / 10, 1.0)
    impact: Floats = 2.6 * np.exp(-since / 0.09) * np.cos(2 * np.pi * 6 * since)
    return impact


def _oil(b: Block, load: Floats) -> Floats:
    heat = 2.5 * b.slow_strength("overload") + 0.6 * b.slow_strength("tooth_damage")
    return b.trait("oil", 55, 63) + 2 * b.drift("cooling", 240) + 1.5 * (load - 1) + heat + 0.06 * b.noise("oil")


GEARBOX = PlantKind(
    "gearbox",
    ("vibration_x", "vibration_y", "speed", "torque", "oil_temperature"),
    ("mm/s", "mm/s", "rpm", "Nm", "°C"),
    ("normal", "tooth_damage", "imbalance", "overload"),
    40_000_000,
    _signals,
)
