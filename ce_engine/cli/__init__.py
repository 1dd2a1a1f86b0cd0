"""The `ce` command: runs the demo, shows sessions and reports, checks the installation."""
