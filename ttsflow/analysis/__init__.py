"""What recorded samples and finished runs say: profiles, published tables, trees."""
