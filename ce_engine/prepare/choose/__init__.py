"""Chooses what goes out: the cut, what stands, what is brought back, what the pruner says."""
