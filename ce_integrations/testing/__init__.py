"""The contract suite for adapters, and `Wire`, a model server on loopback that records requests."""
