"""Keep the books of a few people who share expenses."""
