"""Run `ut-trainer` from a checkout; see ut_keras/bin/trainer.py."""

import sys

from ut_keras.bin.trainer import main

if __name__ == "__main__":
    sys.exit(main())
