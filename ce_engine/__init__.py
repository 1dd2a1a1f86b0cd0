"""The engine that prepares, within a budget, and records what goes to a model; it knows no framework."""
