"""Sliding windows: ring buffers, which windows are due, late, idle or expired."""
