"""Programs on the engine."""
