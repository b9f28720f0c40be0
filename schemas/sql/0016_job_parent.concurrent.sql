-- 0016_job_parent.concurrent.sql - what was made from a picture.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_parent ON job (parent) WHERE parent <> 0;
