-- 0007_latent_cache.sql - latents as an aim of their own: which states a job stores, which a file
-- holds, and what filling the cache has cost.

-- Of a trajectory only the states nearest to these noise levels ("0.9,0.75"); '' is all of them.
ALTER TABLE job ADD COLUMN sigmas text NOT NULL DEFAULT '';

-- The level of each state of the file, as they lie in it; NULL in rows from before.  gpu_ms is of
-- a job that left no picture, whose row would say it.
ALTER TABLE latent ADD COLUMN sigmas double precision[], ADD COLUMN gpu_ms real;
UPDATE latent SET sigmas = ARRAY[sigma] WHERE states = 1;
-- What filling the cache cost is found without reading the latents of pictures.
CREATE INDEX latent_spent ON latent (job_id) WHERE gpu_ms IS NOT NULL;
