"""What a person sees in a terminal: a live table with the last change explained, or plain lines."""
