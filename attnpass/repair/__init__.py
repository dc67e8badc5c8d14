"""Wrong answers of IREE 3.13 that another form of the same program avoids, one a file."""
