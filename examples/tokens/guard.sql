-- A database that checks tokens: a write under an old one changes nothing.
--
-- :token is hf_fence(), HOLDFAST_FENCE or hold.fence of whoever writes. Tokens fit into a signed integer of 64 bits.
-- Plain SQL, tried with SQLite; each statement is named, as programs would have it.

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
-- The comparison and the write are one statement. No row changed: a later holder has been here; stop, and do not try
-- again under this token. It is <=, for a holder may write more than once.
UPDATE orders
   SET state = :state, fence = :token
 WHERE id = :id AND fence <= :token;

-- name: pass_guard
-- For work on many rows: first in the transaction that does it, and go back if no row changed.
INSERT INTO guards (name, fence) VALUES (:name, :token)
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence
    WHERE guards.fence <= excluded.fence;
