"""Ways to compute an operator as tensorised loop nests, each with the space of its schedules (swATOP 3, 4.2)."""
