"""How an adapter is installed on an app, and taken away again."""
