"""What the operator page costs: in the browser, on the line, and in the program that serves it."""
