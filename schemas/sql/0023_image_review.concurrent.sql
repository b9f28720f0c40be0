-- 0023_image_review.concurrent.sql - pictures that a rule or a classifier marked and no person has seen.
CREATE INDEX CONCURRENTLY IF NOT EXISTS image_review ON image (pool, job_id) WHERE safety_flag >= 1 AND safety_source NOT LIKE 'person:%';
