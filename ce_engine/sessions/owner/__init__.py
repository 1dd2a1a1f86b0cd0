"""What owners set for a project: constraints, budgets, and other settings."""
