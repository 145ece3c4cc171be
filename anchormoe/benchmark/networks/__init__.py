"""The paper's neural baselines, written from their papers' equations: one file each, all `(B, T, C) -> (B, Y)`."""
