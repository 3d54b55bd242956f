-- What the state knows of itself; `secret` is drawn when it is made.
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One row an idempotency key. Instants are microseconds since 1970, by the clock
-- that the process kept steady since it opened the file.
CREATE TABLE idempotency (
  seq         INTEGER PRIMARY KEY,
  name        BLOB    NOT NULL UNIQUE CHECK (length(name) = 32),
  fence       INTEGER NOT NULL CHECK (fence > 0),
  created     INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  expires     INTEGER NOT NULL,
  finished    INTEGER,          -- NULL: the operation runs, or nobody knows
  client      TEXT    NOT NULL,
  method      TEXT    NOT NULL,
  route       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL,
  status      INTEGER NOT NULL DEFAULT 0,
  omitted     INTEGER NOT NULL DEFAULT 0,
  -- Last, so that a listing need not read over them.
  header      BLOB    NOT NULL DEFAULT x'',
  body        BLOB    NOT NULL DEFAULT x''
) STRICT;

CREATE INDEX idempotency_expires ON idempotency (expires);
