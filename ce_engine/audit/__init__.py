"""What happened, looked at and undone: trace, replay, inspection, judging, comparing, deleting."""
