"""Records of every decision, and what is made of them: JSON, text, remarks."""
