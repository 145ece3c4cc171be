"""The runtime and the command line: windows, inference, events. The only package that knows the other two."""
