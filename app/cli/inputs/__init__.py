"""What several commands read: queries with the streams they are read against, and the events of files."""
