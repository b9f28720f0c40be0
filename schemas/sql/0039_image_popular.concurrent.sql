-- 0039_image_popular.concurrent.sql - which prompts were rendered often, without reading the pictures' rows.
CREATE INDEX CONCURRENTLY IF NOT EXISTS image_popular ON image (pool, job_id) INCLUDE (prompt_hash, width, height, model, steps, denoise_ms, forwards) WHERE lora_set = '' AND guidance = 0 AND mode NOT LIKE '%variety%' AND (mode = '' OR mode LIKE 'coarse=%' OR mode LIKE 'teleport=%');
