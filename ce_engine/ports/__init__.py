"""The interfaces of everything that can be exchanged; their docstrings are the specification."""
