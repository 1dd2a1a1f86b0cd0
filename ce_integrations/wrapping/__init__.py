"""Wraps the methods of others' objects, and puts them back."""
