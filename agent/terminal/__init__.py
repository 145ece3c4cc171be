"""What people see on a terminal: a live board with the last change explained, or plain lines."""
