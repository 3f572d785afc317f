"""The driver's HTTP server, who may ask it what, and the questions of tasks."""
