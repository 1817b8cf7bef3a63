"""``python -m slicestein._cli``."""

import sys

from slicestein._cli.main import main

sys.exit(main())
