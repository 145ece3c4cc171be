"""What the agent knows about itself: status, counters, metrics, health checks, watchdog."""
