"""Tool results in fewer tokens."""
