"""One call, from what was asked to what is recorded."""
