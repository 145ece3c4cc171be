"""A centrifugal pump, ten samples a second. Pure."""

import numpy as np

from connectors.simulator.plants.kinds import Block, PlantKind
from connectors.simulator.plants.noise import Floats


def _signals(b: Block) -> Floats:
    """Speed follows the demand; flow, head, current and vibration follow the speed, each with its own faults."""
    cavitation, blockage, wear = b.strength("cavitation"), b.strength("blockage"), b.strength("bearing_wear")
    speed = 0.95 + 0.05 * b.drift("demand", 60) + 0.02 * b.drift("control", 8)
    bursts = cavitation * np.clip(b.drift("bubbles", 0.6), 0, 2)
    hunting = blockage * np.sin(2 * np.pi * b.trait("hunting_hz", 0.35, 0.5) * b.time_s)
    flow = speed * (1 - 0.16 * blockage) - 0.05 * bursts + 0.02 * hunting + 0.012 * b.drift("turbulence", 0.3)
    head = speed**2 * (1 + 0.1 * blockage) - 0.05 * bursts - 0.02 * hunting + 0.012 * b.drift("pressure", 0.3)
    current = 0.45 * speed**3 + 0.55 * speed * flow + 0.02 * wear * _rub(b) + 0.008 * b.noise("current")
    columns = [
        b.trait("flow", 85, 115) * flow + 0.3 * b.noise("flow"),
        b.trait("head", 5, 7) * head + 0.02 * b.noise("head"),
        b.trait("current", 32, 42) * current,
        _vibration(b, speed, bursts, wear),
        _temperature(b, speed),
    ]
    return np.stack(columns, axis=1)  # (n, C)


def _vibration(b: Block, speed: Floats, bursts: Floats, wear: Floats) -> Floats:
    rest = b.trait("vibration", 1.5, 2.3) * speed**2 * (1 + 0.12 * b.drift("mounting", 20))
    knocks = 1.3 * np.clip(b.drift("valves", 2) - 1.6, 0, None)
    fault = bursts * (0.5 + 0.6 * np.abs(b.noise("collapse"))) + wear * (0.15 + 1.1 * _rub(b))
    return np.maximum(rest + knocks + fault + 0.12 * b.noise("vibration"), 0.05)


def _rub(b: Block) -> Floats:
    """A damaged bearing race passes the load about once a second."""
    wave = np.cos(2 * np.pi * b.trait("race_hz", 0.8, 1.2) * b.time_s)
    return np.clip(wave, 0, None) ** 4


def _temperature(b: Block, speed: Floats) -> Floats:
    heat = 3 * b.slow_strength("bearing_wear") + 1.0 * b.slow_strength("blockage")
    return (
        b.trait("temperature", 48, 58)
        + 2.5 * b.drift("hall", 300)
        + 4 * (speed - 0.95)
        + heat
        + 0.08 * b.noise("probe")
    )


PUMP = PlantKind(
    "pump",
    ("flow", "pressure", "motor_current", "vibration", "temperature"),
    ("m3/h", "bar", "A", "mm/s", "°C"),
    ("normal", "cavitation", "blockage", "bearing_wear"),
    100_000_000,
    _signals,
)
