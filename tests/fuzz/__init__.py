"""Raw bytes, changed inside and outside known fields, through every door: `python -m tests.fuzz --help`."""
