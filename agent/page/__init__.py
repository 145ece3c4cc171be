"""The operator page: what the browser sees of the plant, over HTTP/JSON and server-sent events."""
