"""The fakes of this folder are modules of its tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
