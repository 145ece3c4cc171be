"""A committee of sparse routed experts whose token contributions add up to the logits."""
