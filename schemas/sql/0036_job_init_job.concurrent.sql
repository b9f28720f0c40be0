-- 0036_job_init_job.concurrent.sql - which jobs start from the latent of a job.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_init_job ON job (init_job) WHERE init_job <> 0;
