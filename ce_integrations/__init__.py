"""Brings the engine into agent frameworks: what adapters share, and one package a framework."""
