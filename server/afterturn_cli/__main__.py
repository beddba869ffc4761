"""`python -m afterturn_cli` is `afterturn`."""

from .main import main

main()
