"""Context blocks: made of a session's state, and rendered as text."""
