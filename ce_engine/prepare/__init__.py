"""Decides, without I/O, what of a session goes into a model call, and says why."""
