"""Redis and Valkey as the window store: rings as strings, fenced scripts, bounded chunks."""
