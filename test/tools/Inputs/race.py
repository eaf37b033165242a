"""A program that ends as ThreadSanitizer ends one, with much before and behind what matters."""
import sys

print("noise\n" * 200 + "WARNING: ThreadSanitizer: data race\nWrite of size 4")
print("#0 frame\n" * 347 + "SUMMARY: ThreadSanitizer")
sys.exit(66)
