"""Hot reload: query files that change while the application runs."""
