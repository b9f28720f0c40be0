-- 0025_job_alike.sql - how like earlier pictures of its prompt a picture may be (0 .. 100), where
-- job.teleport lets its run begin from a stored latent.
--
-- job.teleport is 0 in rows of early releases, whatever their lines said, 1 for off and 2 for auto.
ALTER TABLE job ADD COLUMN alike smallint NOT NULL DEFAULT 0;
