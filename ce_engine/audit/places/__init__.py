"""Where messages went, turn by turn, as stored turns say it."""
