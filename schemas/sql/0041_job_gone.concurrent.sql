-- 0041_job_gone.concurrent.sql - the jobs of a batch that its file no longer has, without reading the others.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_gone ON job (batch_id) WHERE gone;
