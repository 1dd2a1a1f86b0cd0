"""The types of a session and of a model call; no I/O."""
