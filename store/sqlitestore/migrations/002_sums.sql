-- CRC-32C of what a caller is answered from (see sum.go). NULL: the record was
-- written before there were any, or is not finished.
ALTER TABLE idempotency ADD COLUMN fingerprint_sum INTEGER;
ALTER TABLE idempotency ADD COLUMN finish_sum INTEGER;
