"""The extractor's worker with a judge that waits for the test: `python -m tests.services.slow_extractor`.

It judges once the folder STUB_FOLDER holds a file `go`, and notes in the folder `begun` what it was asked. A
request that holds the word "stumble" fails the first time.
"""

import os
import sys
import time
from pathlib import Path

from afterturn_core.database import Database
from afterturn_core.logs import configure_logs
from afterturn_core.settings import load_settings
from afterturn_extractor import rules
from afterturn_extractor.evidence import Evidence, Judgement
from afterturn_extractor.worker import work


def slow_judge(folder: Path, evidence: Evidence) -> Judgement:
    """The rules' verdict, later."""
    name = evidence.user_request.replace(" ", "-").rstrip("?.")
    notes = folder / "begun"
    notes.mkdir(exist_ok=True)
    if "stumble" in name and not (notes / name).exists():
        (notes / name).touch()
        raise TimeoutError("the judge did not answer")
    (notes / name).touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    return rules.judge(evidence)


if __name__ == "__main__":
    configure_logs("info")
    settings = load_settings()
    folder, ready_file = Path(os.environ["STUB_FOLDER"]), Path(sys.argv[2])
    database = Database(settings.effective_database_url)
    sys.exit(work(settings, database, lambda evidence: slow_judge(folder, evidence), ready_file))
