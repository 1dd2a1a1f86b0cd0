"""Sessions, turns, costs and reasons in words, for every program that shows them."""
