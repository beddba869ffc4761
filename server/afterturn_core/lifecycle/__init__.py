"""Every change of state of a turn, a round and an adapter is in here and nowhere else.

    turn      open → observed → judged | abstained | excluded;  judged → claimed → trained
    round     claimed → training → gating → published | rejected | failed | cancelled
    adapter   candidate → published | rejected;  published → retired

Each function works inside the caller's transaction and moves states by compare-and-set, so that
doing one twice, from any process, changes nothing. Whoever wakes a worker does so after commit.
"""

from .adapters import (
    burn_version,
    import_adapter,
    promote,
    publish_import,
    reject_import,
    reject_left_imports,
    retire_old,
    rollback,
    rollback_target,
)
from .claims import HELD_OUT_SHARE, RoundPlan, claim_round, claimable, is_held_out, served_base
from .evidence import (
    Piece,
    add_feedback,
    add_fixes,
    believe,
    exclude,
    observe,
    settle_session,
    withdraw_feedback,
)
from .leases import Lease, acquire_lease, heartbeat, release_lease, release_left_behind
from .outcomes import (
    MAX_ATTEMPTS,
    cancel,
    fail,
    fail_left_behind,
    give_up_abandoned,
    publish,
    reject,
    request_cancel,
)
from .retraction import taint, take_back_evidence
from .signals import ADMIN_WORD, SignalDraft, override_verdict, save_signal

__all__ = [
    "ADMIN_WORD",
    "HELD_OUT_SHARE",
    "MAX_ATTEMPTS",
    "Lease",
    "Piece",
    "RoundPlan",
    "SignalDraft",
    "acquire_lease",
    "add_feedback",
    "add_fixes",
    "believe",
    "burn_version",
    "cancel",
    "claim_round",
    "claimable",
    "exclude",
    "fail",
    "fail_left_behind",
    "give_up_abandoned",
    "heartbeat",
    "import_adapter",
    "is_held_out",
    "observe",
    "override_verdict",
    "promote",
    "publish",
    "publish_import",
    "reject",
    "reject_import",
    "reject_left_imports",
    "release_lease",
    "release_left_behind",
    "request_cancel",
    "retire_old",
    "rollback",
    "rollback_target",
    "save_signal",
    "served_base",
    "settle_session",
    "taint",
    "take_back_evidence",
    "withdraw_feedback",
]
