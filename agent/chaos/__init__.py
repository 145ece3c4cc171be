"""Agents on trial: a known stream, injuries while it flows, and the events against those of an undisturbed replay."""
