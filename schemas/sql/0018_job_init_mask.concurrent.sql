-- 0018_job_init_mask.concurrent.sql - which masks are still named by a job.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_init_mask ON job (init_mask) WHERE init_mask IS NOT NULL;
