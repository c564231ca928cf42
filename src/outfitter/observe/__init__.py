"""Who watches a server: nothing here is imported unless somebody does."""
