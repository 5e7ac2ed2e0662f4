# SPDX-License-Identifier: Apache-2.0
"""The faults (F) and behaviours (B): what each number is, and why a store has no test of it."""

WHAT = {
    "F1": "the client is paused while the answer to an acquire is under way",
    "F2": "the client is paused between the check and the work",
    "F3": "the client is stopped for longer than the lease",
    "F4": "the background thread gets no CPU time",
    "F5": "the work outlives `max_hold`",
    "F6": "the client's wall clock jumps",
    "F7": "the machine sleeps and wakes up",
    "F8": "the server's clock is stepped forward",
    "F9": "the server's clock is stepped back",
    "F10": "clocks that run at different rates",
    "F11": "primary and replica have different clocks",
    "F12": "the answer to an acquire is lost",
    "F13": "an acquire takes effect after its caller gave up",
    "F14": "the answer to a renewal is lost",
    "F15": "a release arrives after the next owner",
    "F16": "an answer arrives after its request was given up",
    "F17": "a half-open connection, a peer that stalls",
    "F18": "answers in single bytes",
    "F19": "a message to a waiter is lost",
    "F20": "a thousand waiters",
    "F21": "host names that are not found, or change",
    "F22": "a server is killed and comes back without data",
    "F23": "a server is killed and comes back with its data",
    "F24": "a node of a quorum comes back without data",
    "F25": "the lock is deleted while it is held",
    "F26": "a server that may evict locks",
    "F27": "a server or a system that refuses, and why",
    "F28": "the key or file of the lock holds something else",
    "F29": "scripts are flushed",
    "F30": "a server stalled by a slow script",
    "F31": "a lock that was not replicated is lost in a failover",
    "F32": "the old primary still answers",
    "F33": "a Sentinel that is behind the others",
    "F34": "MOVED, ASK, TRYAGAIN, CLUSTERDOWN",
    "F35": "a slot moves under a held lock",
    "F36": "tokens grow through all of the faults above",
    "F37": "a slot in the middle of its move",
    "F38": "a released lock comes back with a failover",
    "F39": "replies with hostile lengths and depths",
    "F40": "replies of a wrong type, unexpected replies, too many replies",
    "F41": "certificates, host names and secrets",
    "F42": "fork",
    "F43": "exec, SIGPIPE, EINTR",
    "F44": "a thread ends while it holds a lock",
    "F45": "memory, descriptors and threads run out",
    "F46": "kill -9",
    "F47": "a client is closed with waits and holds",
    "F48": "a second release, a release after a loss, a release without an answer",
    "F49": "leases that are not valid",
    "F50": "names of all sorts",
    "F51": "bytes of a closed connection arrive late",
    "F52": "messages that are late, doubled, out of order, forged",
    "F53": "the server's clock is stepped between sample and grant",
    "F54": "a program that subscribes to all channels",
    "F55": "publishing is refused",
    "F56": "one of the two connections is down, or goes to another server",
    "B1": "a fresh lock can be acquired; names are independent",
    "B2": "a second acquire that may not re-enter reports a deadlock at once",
    "B3": "a released lock can be acquired",
    "B4": "a try on a held lock returns at once",
    "B5": "async and blocking calls return the same results",
    "B6": "a wait ends when its time is over",
    "B7": "a cancel ends a wait",
    "B8": "many contenders: one holder at a time, all are served, in order",
    "B9": "names are case-sensitive",
    "B10": "a normal release reports no loss",
    "B11": "a loss is reported at the answer, or at the deadline",
    "B12": "calls after a loss return HF_LOST",
    "B13": "processes exclude each other as threads do",
    "B14": "a holder that exits or is killed is followed by a waiter",
    "B15": "renewal keeps a lock for many leases",
    "B16": "readers share, a writer excludes, in order",
    "B17": "upgradable readers, upgrade and downgrade",
    "B18": "permits",
    "B19": "several names, all or none",
    "B20": "a cancel that races with a release loses no wake-up",
    "B21": "prefixes isolate",
    "B22": "a hold can be extended, and not after a loss",
    "B23": "re-entry is counted",
    "B24": "another thread may release",
    "B25": "logical owners",
    "B26": "a break notifies the holder, and the next waiter gets the lock",
    "B27": "inspecting shows the holder and the waiters",
    "B28": "tokens grow",
    "B29": "ten thousand locks of one client",
    "B30": "nothing is left behind",
    "B31": "latches",
    "B32": "leaders",
    "B33": "names in use are listed",
    "B34": "a hold is exported from its process, and adopted",
}

REASONS = {
    "n": "there is no network between the client and its locks",
    "v": "there is no server",
    "p": "its locks belong to one process, and end with it",
    "r": "nothing is replicated there",
    "o": "this is about another topology",
    "g": "`make test-failover` covers it: every holder compares its token with the last one, "
         "across kills, stops and failovers",
    "l": "the code for a single server reads messages, and is tested with a scripted server. That "
         "server has no `ROLE`, and a front may reorder what it sends over two connections",
    "h": "the holder measures the lease by its own clock, and the kernel keeps the lock: no "
         "server clock is involved",
    "q": "a quorum has no queue of waiters and sends no messages: waiters poll",
    "m": "a quorum supports only the mutex: readers, permits, latches, leaders, lists and "
         "exports are `HF_UNSUPPORTED`",
    "s": "each node of a quorum is handled by the code for a single server, where it is tested; "
         "how the quorum copes with such a node is F17, F22, F24, F25",
    "t": "TLS only wraps the connection; this happens outside of TLS, in the same code as on a "
         "single server",
    "w": "it is found when the client connects, before the topology matters",
    "d": "`holdfast doctor` examines one server at a time",
    "k": "there is no background thread to starve: the hold lasts until the process ends or "
         "releases it",
    "f": "everything is in memory or in a file, which is read whole or not at all",
    "c": "messages to waiters come from one server, on channels of a name. Their order and loss "
         "are tested on a single server. `cluster_moving` and the conformance suite test that they "
         "reach their clients",
    "b": "it is counted per client by the same code on every store: tested in memory and on a "
         "server",
}

_NETWORK = ("F12", "F13", "F15", "F16", "F17", "F18", "F19", "F21", "F51", "F52", "F56")
_SERVER = ("F8", "F9", "F22", "F23", "F26", "F29", "F30", "F53", "F54", "F55")
_REPLICA = ("F11", "F31", "F32", "F33", "F38")
_CLUSTER = ("F34", "F35", "F37")


def _why():
    """(number, store) → the letter of a reason. It is shown only where no test passed."""
    why = {}

    def put(letter, numbers, *stores):
        for number in numbers:
            for store in stores:
                why.setdefault((number, store), letter)

    put("n", _NETWORK + ("F1", "F14", "F20", "F39", "F40", "F41"), "memory", "file")
    put("v", _SERVER + ("F24", "F27", "F28", "F25"), "memory", "file")
    put("r", _REPLICA + ("F36",), "memory", "file")
    put("o", _CLUSTER, "memory", "file", "single", "tls", "sentinel", "quorum")
    put("o", ("F24",), "single", "tls", "sentinel", "cluster")
    put("o", ("F32", "F33", "F38"), "single", "tls")
    put("o", ("F33",), "cluster", "quorum")
    put("o", ("F11", "F31", "F32", "F38"), "quorum")
    put("p", ("F2", "F46", "B13", "B14", "B30"), "memory")
    put("h", ("F7", "F10"), "memory", "file")
    put("h", ("F2",), "file")
    put("k", ("F4",), "file")
    put("q", ("F19", "F20", "F52", "F53", "F54", "F55", "F56"), "quorum")
    put("m", ("B16", "B17", "B18", "B31", "B32"), "quorum")
    put("s", ("F1", "F2", "F4", "F6", "F7", "F8", "F9", "F14", "F15", "F16", "F18", "F21", "F23",
              "F28", "F29", "F30", "F39", "F40", "F46"), "quorum")
    put("c", ("F19", "F20", "F52", "F53", "F54", "F55", "F56"), "cluster")
    put("o", ("F11",), "single", "tls", "sentinel", "cluster")
    put("g", ("F36",), "single", "tls", "sentinel", "cluster")
    put("l", ("F53",), "sentinel", "tls")
    put("k", ("F4",), "memory")
    put("d", ("F26",), "tls", "sentinel", "cluster", "quorum")
    put("w", ("F39", "F40", "F43", "F21"), "tls", "sentinel", "cluster")
    put("t", ("F11", "F20", "F31", "F45"), "tls")
    put("b", ("B29", "B30", "F6"), "file", "tls", "sentinel", "cluster", "quorum", "memory")
    return why


WHY = _why()

# Tests of faults that do not run through a front, and why.
NOT_THROUGH = {
    "sentinel": {
        r"fault_connect: F21_a_name_that_changes.*":
            "the URL has the names and addresses of the Sentinels there",
        r"fault_errors: F27_(a_release|a_wait_survives|renewals_that_are_refused_are|the_errors).*":
            "`READONLY` makes a client ask the Sentinels for another primary, as it should: F32",
        r"fault_messages: F53.*": "the scripted server has no `ROLE`",
        r"fault_rights: F55_(a_release_that_is_refused|the_user_of_the_doc).*":
            "a user there also needs the right to `ROLE`",
    },
    "tls": {
        r"fault_connect: F21_a_name_that_changes.*": "the name is that of the front",
        r"fault_messages: F53.*":
            "the scripted server uses two connections, and the front does not keep their order",
        r"fault_crowd: .*": "a thousand clients are more than the front can serve in time",
        r"fault_closing: F42_a_child_closes.*": "it counts connections to the server's own port",
    },
    "cluster": {
        r"fault_(closing|connect|crowd|loop|messages|queue|replicas|rights): .*":
            "clients of a cluster subscribe by name, on other channels; a cluster has one "
            "database, and other errors",
        r"fault_latch: (F19|F25_a_latch_set|F27|F47).*":
            "the same: it waits until a client subscribes",
        r"fault_many_names: .*": "names are in several slots there, and are acquired one by one",
        r"fault_errors: F27_(a_loading|a_release_that_is|a_wait_survives|renewals|the_errors).*":
            "`REPLICAOF` is refused there",
        r"fault_server_clock: F11.*": "the same",
    },
}
