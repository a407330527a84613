"""`python -m society`: the same as the command `society`."""

from society.cli import main

if __name__ == "__main__":
    main()
