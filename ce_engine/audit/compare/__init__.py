"""Reads recorded model calls and sums them up in groups, so that they can be compared."""
