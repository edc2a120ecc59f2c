"""``python -m ttsflow`` is the command ``ttsflow``."""

from ttsflow.cli import main

raise SystemExit(main())
