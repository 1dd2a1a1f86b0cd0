"""What of a host's list is already stored, and where each of its messages sits."""
