"""What is known of a session between its calls."""
