"""Redis and Valkey as the window store: ring buffers as strings, written by fenced scripts in bounded chunks."""
