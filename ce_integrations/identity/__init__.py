"""Whose words they are: session, user, conversation, role."""
