-- 0013_job_init_image.concurrent.sql - which pictures to start from are still named by a job.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_init_image ON job (init_image) WHERE init_image IS NOT NULL;
