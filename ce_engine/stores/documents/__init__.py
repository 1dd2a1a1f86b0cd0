"""Stores that keep a session as one document: in memory, in files, in Redis."""
