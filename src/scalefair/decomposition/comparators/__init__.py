"""The methods that fair PCA is compared with."""
