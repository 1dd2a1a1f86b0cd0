"""Puts what was chosen together: texts, their order, the plan."""
