"""`python -m amanda` is the `amanda` command."""

from amanda.cli import main

if __name__ == "__main__":
    main()
