"""What people are shown of the running queries: metrics, log lines, the last hour, `/queries`."""
