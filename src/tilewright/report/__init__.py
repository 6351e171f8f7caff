"""Views over estimates, runs and traces: what is shown, never what is computed."""
