"""What is told of a turn: its report, its archive, what it cost."""
