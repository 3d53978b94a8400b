"""A run's raw outputs become its records."""
