"""What goes into a call."""
