"""The rules, one module a subject. Every module here is loaded; a new one is listed nowhere."""
