-- 0024_worker_trouble.sql - why a worker has not started.
--
-- A worker without a heartbeat can tell nobody: its model does not load, or the store refuses it
-- before it has begun.  So it writes the sentence here, beside its state; NULL while nothing is
-- wrong.  Older programs leave it as it is.
ALTER TABLE worker ADD COLUMN trouble text;
