"""Keeps sessions behind one port, in memory or in SQL; a store decides nothing."""
