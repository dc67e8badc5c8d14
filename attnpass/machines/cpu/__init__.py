"""CPUs: what they are like, loops and configurations."""
