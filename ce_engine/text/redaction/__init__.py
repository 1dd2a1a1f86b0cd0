"""Takes what is personal or secret out of text and data, and puts it back for those who may see it."""
