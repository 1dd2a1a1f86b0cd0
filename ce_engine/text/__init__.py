"""What a text tells, without a model: its tokens, its secrets, how near it is to a question."""
