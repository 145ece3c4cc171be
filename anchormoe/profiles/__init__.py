"""What each expert of a model knows, in words and by example, from the TRAIN cases it spoke loudest on."""
