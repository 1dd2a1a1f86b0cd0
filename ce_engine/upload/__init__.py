"""Makes what came back fit for storage, without I/O: redacted, deduplicated, linked to its call."""
