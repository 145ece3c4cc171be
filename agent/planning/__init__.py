"""How much of everything a plant needs: formulas, costs measured or read, the answer in words."""
