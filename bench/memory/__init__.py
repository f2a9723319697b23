"""Inputs that make memory grow, and the peak of each service that reads them."""
