"""What came back becomes records, redacted, in one place."""
