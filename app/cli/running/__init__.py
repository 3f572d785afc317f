"""Commands for those who operate the application: run, checkpoint."""
