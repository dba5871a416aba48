"""What users take: AutoHasher, compositions of hashers, and the methods that need no labels or only sums of them."""
