"""Messages, content and usage of frameworks in the engine's terms, and back."""
