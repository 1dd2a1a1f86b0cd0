"""Tells what happened: events to those who listen, and a report for each turn."""
