"""`python -m zero_compile` is `zero`."""
import sys

from .cli import main

sys.exit(main())
