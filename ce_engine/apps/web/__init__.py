"""`ce ui`: a local page, read only, that shows what went to the model, what fell out, and why."""
