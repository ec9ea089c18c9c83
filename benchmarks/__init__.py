"""What interlock costs, measured beside a hand-written loop that does the same work."""
