"""What can go wrong with a trial itself."""


class ChaosError(Exception):
    """The trial cannot go on: agents that do not come back, a service that stays away, an injury without effect."""
