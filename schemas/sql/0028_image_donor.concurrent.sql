-- 0028_image_donor.concurrent.sql - which pictures began from the latent of a job.
CREATE INDEX CONCURRENTLY IF NOT EXISTS image_donor ON image (donor) WHERE donor IS NOT NULL;
