"""Contract suites and scripted parts for those who implement a port of the engine."""
