"""Which texts a question needs: by words, and by vectors where there are some."""
