"""What a session becomes when it is long: summaries, and vectors of its texts."""
