-- 0020_job_source.concurrent.sql - the jobs of a file in a batch, when the file is sent again.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_source ON job (batch_id, source) WHERE source IS NOT NULL AND NOT gone;
