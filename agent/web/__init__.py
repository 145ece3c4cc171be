"""HTTP servers: one guard for every route, who may do what, connections with limits."""
