"""Ceilings and their picture: the extended network roofline, from records."""
