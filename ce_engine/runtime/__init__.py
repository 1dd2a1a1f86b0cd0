"""Threads, locks and buffers that keep the host's calls from waiting for the engine."""
