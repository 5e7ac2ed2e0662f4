-- A database that checks tokens: a write under an old one changes nothing.
--
-- :token is the writer's hf_fence(), HOLDFAST_FENCE or hold.fence. Tokens fit into a signed integer
-- of 64 bits. Plain SQL, tested with SQLite; each statement has a name, for use in a program.

-- name: schema
CREATE TABLE orders (
    id    INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    fence BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE guards (
    name  TEXT PRIMARY KEY,
    fence BIGINT NOT NULL
);

-- name: bill_order
-- The comparison and the write are one statement. If no row changed, a later holder has written:
-- stop, and do not try again under this token. The test is <=, because a holder may write twice.
UPDATE orders
   SET state = :state, fence = :token
 WHERE id = :id AND fence <= :token;

-- name: pass_guard
-- For work on many rows: run it first in the transaction, and roll back if no row changed.
INSERT INTO guards (name, fence) VALUES (:name, :token)
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence
    WHERE guards.fence <= excluded.fence;
