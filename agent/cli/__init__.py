"""The command line, one file per command group. Commands parse, call and print; torch is imported where it is used."""
