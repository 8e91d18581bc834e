"""Mutants that no test could or should notice, and why."""

# (file, function | line, change, reason); the first three are regular expressions.
EQUIVALENTS = []
