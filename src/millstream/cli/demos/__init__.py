"""Jobs that need nothing else: a simulated feed, continuous queries over it, and a screen to watch them."""
