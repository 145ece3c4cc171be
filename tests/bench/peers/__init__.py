"""What others would use instead, side by side on the same topic: `make bench-peers`. Not part of the tests."""
