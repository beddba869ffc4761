"""Verdicts of whatever rules lie on the path, for `stages.py`: a JSON object a line in, a verdict a line out.

Run as a file, with an older version's folders on PYTHONPATH.
"""

import json
import sys

from afterturn_extractor.evidence import Evidence, NextStatePart, ToolCall
from afterturn_extractor.rules import judge


def main() -> None:
    """Answer every line of standard input."""
    for line in sys.stdin:
        told = json.loads(line)
        calls = tuple(ToolCall(name, arguments) for name, arguments in told["calls"])
        part = NextStatePart(told["role"], told["text"])
        print(json.dumps(judge(Evidence(told["request"], (), told["reply"], calls, (part,))).verdict))


if __name__ == "__main__":
    main()
