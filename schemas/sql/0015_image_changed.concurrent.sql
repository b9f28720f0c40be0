-- 0015_image_changed.concurrent.sql - which pictures changed since a snapshot.
CREATE INDEX CONCURRENTLY IF NOT EXISTS image_changed ON image (changed, job_id);
