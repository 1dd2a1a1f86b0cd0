"""What happens round one model call, one tool, one retrieval."""
