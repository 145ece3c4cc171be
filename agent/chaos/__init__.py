"""Chaos experiments: agents under injected faults, their events compared with an offline replay of the same records."""
