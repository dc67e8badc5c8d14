"""Layouts, demands and the planner that prices and commits them."""
