"""``python -m fovea_core``: the command line."""

import sys

from fovea_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
